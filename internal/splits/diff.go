package splits

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// Changes is how the cluster's partitions differ from those a source knows.
type Changes struct {
	// New exist and are not known.
	New []Partition
	// Vanished are known and exist no more.
	Vanished []Partition
	// Recreated are topics whose id is not the one the known positions belong to.
	Recreated []Recreation
}

// Recreation is a topic that was deleted and created again under its old name.
type Recreation struct {
	Topic    string
	Was, Now [16]byte
}

// Diff compares known splits with the cluster. Known splits of topics that the subscription does not cover are left out:
// they are kept in the state and not read.
func Diff(known []checkpoint.Split, sub Subscription, share Share, cluster []Topic) Changes {
	var c Changes
	byName := make(map[string]Topic, len(cluster))
	for _, t := range cluster {
		byName[t.Name] = t
	}
	have := make(map[Partition]bool, len(known))
	for _, s := range known {
		p := Partition{s.Topic, s.Partition}
		if !sub.Covers(p) {
			continue
		}
		have[p] = true
		t, ok := byName[s.Topic]
		switch {
		case !ok || !slices.Contains(t.Partitions, s.Partition):
			c.Vanished = append(c.Vanished, p)
		case IsRecreated(s.TopicID, t.ID) && !slices.ContainsFunc(c.Recreated, func(r Recreation) bool { return r.Topic == s.Topic }):
			c.Recreated = append(c.Recreated, Recreation{Topic: s.Topic, Was: s.TopicID, Now: t.ID})
		}
	}
	for _, t := range cluster {
		for _, n := range t.Partitions {
			if p := (Partition{t.Name, n}); sub.Covers(p) && share.Owns(p) && !have[p] {
				c.New = append(c.New, p)
			}
		}
	}
	slices.SortFunc(c.New, Compare)
	return c
}

// IsRecreated tells whether a topic's id is another one than it was. It is false where one of both is not known: brokers before 2.8 tell none.
func IsRecreated(was, now [16]byte) bool {
	var none [16]byte
	return was != none && now != none && was != now
}

// Lost returns why the known positions can no longer be followed, or nil: a position in a deleted topic means nothing
// in the one that has its name now.
func (c Changes) Lost() error {
	var errs []error
	for _, r := range c.Recreated {
		errs = append(errs, &RecreatedError{r})
	}
	if len(c.Vanished) > 0 {
		errs = append(errs, &VanishedError{c.Vanished})
	}
	return errors.Join(errs...)
}

// RecreatedError says that positions belong to a topic that was deleted, not to the one that has its name now.
type RecreatedError struct{ Recreation }

func (e *RecreatedError) Error() string {
	return fmt.Sprintf("topic %q was deleted and created again (its id was %s and is %s): the positions kept for it mean "+
		"nothing in the new topic; to read the new topic from its first record, and the others from where they stand, name the topics "+
		"by topic_pattern for one start; to read all of them from the start-up mode, %s",
		e.Topic, hex.EncodeToString(e.Was[:]), hex.EncodeToString(e.Now[:]), checkpoint.StartAnew)
}

// VanishedError says that partitions which are being read are gone.
type VanishedError struct{ Partitions []Partition }

func (e *VanishedError) Error() string {
	return fmt.Sprintf("partitions %s do not exist any more: their topic was deleted, or the principal may no longer "+
		"describe it; restore the topic, or take it out of topics", Format(e.Partitions))
}
