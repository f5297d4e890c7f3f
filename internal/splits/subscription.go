package splits

import (
	"errors"
	"fmt"
	"regexp"
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

// Subscription says which partitions a source asks for. Exactly one of its fields is set.
type Subscription struct {
	// Topics are names of topics; every partition of each is read.
	Topics []string
	// Pattern covers every partition of every topic whose whole name it matches, also of topics that come later. There
	// need be none.
	Pattern *regexp.Regexp
	// Partitions are read and no others.
	Partitions []Partition
}

// Validate refuses a subscription that cannot be meant.
func (s Subscription) Validate() error {
	var set []string
	for _, kind := range []struct {
		name  string
		isSet bool
	}{{"topics", len(s.Topics) > 0}, {"topic_pattern", s.Pattern != nil}, {"partitions", len(s.Partitions) > 0}} {
		if kind.isSet {
			set = append(set, kind.name)
		}
	}
	if len(set) == 0 {
		return errors.New("topics: no topic given; name at least one, or set topic_pattern or partitions")
	}
	if len(set) > 1 {
		return fmt.Errorf("%s: only one of them can be set, since each says by itself what is read", strings.Join(set, ", "))
	}
	for i, t := range s.Topics {
		if strings.TrimSpace(t) == "" {
			return fmt.Errorf("topics: entry %d is empty", i)
		}
		if err := validName(t); err != nil {
			return fmt.Errorf("topics: %w", err)
		}
		if slices.Contains(s.Topics[:i], t) {
			return fmt.Errorf("topics: %q is listed twice", t)
		}
	}
	for _, p := range s.Partitions {
		if err := validName(p.Topic); err != nil {
			return fmt.Errorf("partitions: %w", err)
		}
	}
	return nil
}

// nameForm is what Kafka takes for the name of a topic (org.apache.kafka.common.internals.Topic).
var nameForm = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// validName refuses what no topic can be called. The cluster would only say that there is none.
func validName(name string) error {
	if nameForm.MatchString(name) && name != "." && name != ".." {
		return nil
	}
	way := "correct the name"
	switch {
	case strings.ContainsAny(name, ";,"):
		way = "name several topics in a list, or topics in one string with semicolons between"
	case strings.ContainsAny(name, "*+?()[]{}|^$\\"):
		way = "a pattern belongs into topic_pattern"
	case name != strings.TrimSpace(name):
		way = "take the blanks out"
	}
	return fmt.Errorf("%q cannot be the name of a topic, which has up to 249 letters of a to z, digits, points, dashes and "+
		"underscores; %s", name, way)
}

// Names are the topics to ask the cluster for; nil stands for all that there are.
func (s Subscription) Names() []string {
	names := slices.Clone(s.Topics)
	for _, p := range s.Partitions {
		if !slices.Contains(names, p.Topic) {
			names = append(names, p.Topic)
		}
	}
	return names
}

// Covers tells whether the subscription asks for the partition.
func (s Subscription) Covers(p Partition) bool {
	if s.Pattern != nil {
		return s.Pattern.MatchString(p.Topic)
	}
	return slices.Contains(s.Topics, p.Topic) || slices.Contains(s.Partitions, p)
}

// MissingError says that what a source subscribes to by name does not exist.
type MissingError struct {
	// Topics do not exist, nor does a topic of Partitions have them. One of both is empty.
	Topics     []string
	Partitions []Partition
	// Field is the field that names them.
	Field string
}

func (e *MissingError) Error() string {
	if len(e.Topics) == 0 {
		return fmt.Sprintf("%s: %s: the topic has no such partition; correct the number, or take it out", e.Field, Format(e.Partitions))
	}
	return fmt.Sprintf("%s: %s: no such topic in the cluster, or the principal may not describe it; create the topic, "+
		"correct its name, or grant Describe", e.Field, quoted(e.Topics))
}

func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}

// Select returns the partitions of cluster that the subscription covers and the share owns, sorted, or *MissingError. As
// in Flink's subscribers (TopicListSubscriber, PartitionSetSubscriber), one missing topic or partition fails the whole
// selection, and a pattern may match nothing (TopicPatternSubscriber).
func (s Subscription) Select(share Share, cluster []Topic) ([]Partition, error) {
	if err := s.missing(cluster); err != nil {
		return nil, err
	}
	var parts []Partition
	for _, t := range cluster {
		for _, n := range t.Partitions {
			if p := (Partition{t.Name, n}); s.Covers(p) && share.Owns(p) {
				parts = append(parts, p)
			}
		}
	}
	slices.SortFunc(parts, Compare)
	return parts, nil
}

func (s Subscription) missing(cluster []Topic) error {
	e := &MissingError{Field: "topics"}
	if len(s.Partitions) > 0 {
		e.Field = "partitions"
	}
	has := func(name string) int {
		return slices.IndexFunc(cluster, func(t Topic) bool { return t.Name == name && len(t.Partitions) > 0 })
	}
	for _, name := range s.Names() {
		if has(name) < 0 {
			e.Topics = append(e.Topics, name)
		}
	}
	if len(e.Topics) > 0 {
		return e
	}
	for _, p := range s.Partitions {
		if !slices.Contains(cluster[has(p.Topic)].Partitions, p.Partition) {
			e.Partitions = append(e.Partitions, p)
		}
	}
	if len(e.Partitions) > 0 {
		return e
	}
	return nil
}
