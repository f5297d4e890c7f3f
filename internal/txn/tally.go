package txn

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// tally gathers from acknowledged records what a committable says of them.
type tally struct {
	records    int64
	producerID int64
	epoch      int16
	// mixed is set when the records do not all carry one producer id and epoch.
	mixed  bool
	topics []*topicTally
	last   *topicTally // of the last record: neighbours mostly share a topic
}

type topicTally struct {
	topic      string
	records    int64
	partitions []bool // by number
}

func (t *tally) add(r *kgo.Record) {
	if t.records == 0 {
		t.producerID, t.epoch = r.ProducerID, r.ProducerEpoch
	} else if t.producerID != r.ProducerID || t.epoch != r.ProducerEpoch {
		t.mixed = true
	}
	t.records++
	if t.last == nil || t.last.topic != r.Topic {
		t.last = t.topic(r.Topic)
	}
	t.last.records++
	if n := int(r.Partition); n >= len(t.last.partitions) {
		t.last.partitions = append(t.last.partitions, make([]bool, n+1-len(t.last.partitions))...)
	}
	t.last.partitions[r.Partition] = true
}

func (t *tally) topic(name string) *topicTally {
	for _, have := range t.topics {
		if have.topic == name {
			return have
		}
	}
	t.topics = append(t.topics, &topicTally{topic: name})
	return t.topics[len(t.topics)-1]
}

// shares returns what went to each topic, sorted by its name.
func (t *tally) shares() []checkpoint.TopicShare {
	out := make([]checkpoint.TopicShare, 0, len(t.topics))
	for _, topic := range t.topics {
		share := checkpoint.TopicShare{Topic: topic.topic, Records: topic.records}
		for n, written := range topic.partitions {
			if written {
				share.Partitions = append(share.Partitions, int32(n))
			}
		}
		out = append(out, share)
	}
	slices.SortFunc(out, func(a, b checkpoint.TopicShare) int {
		switch {
		case a.Topic < b.Topic:
			return -1
		case a.Topic > b.Topic:
			return 1
		}
		return 0
	})
	return out
}
