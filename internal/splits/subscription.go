package splits

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Topic is what the cluster tells of one topic.
type Topic struct {
	Name string
	// ID is Kafka's id of the topic (KIP-516), zero where the broker tells none.
	ID [16]byte
	// Partitions are the numbers of its partitions, ascending.
	Partitions []int32
}

// Subscription says which partitions a source asks for. The topic list is the first kind; a pattern and a partition set
// will be further fields, exactly one of which is set.
type Subscription struct {
	// Topics are names of topics; every partition of each is read.
	Topics []string
}

// Validate refuses a subscription that cannot be meant.
func (s Subscription) Validate() error {
	if len(s.Topics) == 0 {
		return errors.New("topics: no topic given; name at least one")
	}
	for i, t := range s.Topics {
		if strings.TrimSpace(t) == "" {
			return fmt.Errorf("topics: entry %d is empty", i)
		}
		if slices.Contains(s.Topics[:i], t) {
			return fmt.Errorf("topics: %q is listed twice", t)
		}
	}
	return nil
}

// Contains tells whether the subscription covers the topic.
func (s Subscription) Contains(topic string) bool { return slices.Contains(s.Topics, topic) }

// MissingTopicsError says that subscribed topics do not exist.
type MissingTopicsError struct{ Topics []string }

func (e *MissingTopicsError) Error() string {
	return fmt.Sprintf("topics: %s: no such topic in the cluster, or the principal may not describe it; create the topic, "+
		"correct its name, or grant Describe", quoted(e.Topics))
}

func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}

// Select returns the partitions of cluster that the subscription covers and the share owns, sorted, or
// *MissingTopicsError. As in Flink's topic list subscriber, one missing topic fails the whole selection.
func (s Subscription) Select(share Share, cluster []Topic) ([]Partition, error) {
	var missing []string
	var parts []Partition
	for _, name := range s.Topics {
		i := slices.IndexFunc(cluster, func(t Topic) bool { return t.Name == name && len(t.Partitions) > 0 })
		if i < 0 {
			missing = append(missing, name)
			continue
		}
		for _, n := range cluster[i].Partitions {
			if p := (Partition{name, n}); share.Owns(p) {
				parts = append(parts, p)
			}
		}
	}
	if len(missing) > 0 {
		return nil, &MissingTopicsError{missing}
	}
	slices.SortFunc(parts, Compare)
	return parts, nil
}
