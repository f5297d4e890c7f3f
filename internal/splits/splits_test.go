package splits

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

func TestSubscriptionValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		topics []string
		err    string
	}{
		"one":   {[]string{"a"}, ""},
		"two":   {[]string{"a", "b"}, ""},
		"none":  {nil, "no topic given"},
		"empty": {[]string{"a", " "}, "entry 1 is empty"},
		"twice": {[]string{"a", "b", "a"}, `"a" is listed twice`},
	} {
		t.Run(name, func(t *testing.T) {
			err := Subscription{Topics: tc.topics}.Validate()
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
}

func TestSelectTakesEveryPartitionOfEveryTopicOrNamesTheMissingOnes(t *testing.T) {
	cluster := []Topic{
		{Name: "b", Partitions: []int32{0}}, {Name: "a", Partitions: []int32{1, 0}}, {Name: "other", Partitions: []int32{0}},
		{Name: "unready"},
	}
	parts, err := Subscription{Topics: []string{"b", "a"}}.Select(Whole(), cluster)
	require.NoError(t, err)
	require.Equal(t, []Partition{{"a", 0}, {"a", 1}, {"b", 0}}, parts)

	_, err = Subscription{Topics: []string{"a", "no", "unready"}}.Select(Whole(), cluster)
	var missing *MissingTopicsError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{"no", "unready"}, missing.Topics)
	require.ErrorContains(t, err, `"no", "unready": no such topic`)
}

// The hash values are those of java.lang.String.hashCode, so the owners are Flink's.
func TestOwnerFollowsFlinksRule(t *testing.T) {
	require.EqualValues(t, 96354, javaHash("abc"))
	require.EqualValues(t, -1008770331, javaHash("orders"))
	require.EqualValues(t, 0, javaHash(""))
	require.EqualValues(t, 1772899, javaHash("😀")) // two UTF-16 units

	for _, readers := range []int32{1, 2, 3, 7} {
		counts := make(map[int32]int)
		first := Owner(Partition{"orders", 0}, readers)
		for n := range int32(70) {
			owner := Owner(Partition{"orders", n}, readers)
			require.Equal(t, (first+n)%readers, owner, "partitions of a topic follow in turn")
			counts[owner]++
			owners := 0
			for i := range readers {
				if (Share{readers, i}).Owns(Partition{"orders", n}) {
					owners++
				}
			}
			require.Equal(t, 1, owners, "each partition has one owner")
		}
		require.Len(t, counts, int(readers))
	}
	// (hash * 31) & 0x7FFFFFFF is 940374459 in a JVM.
	require.EqualValues(t, 940374459%5, Owner(Partition{"orders", 0}, 5))
}

func TestShareValidate(t *testing.T) {
	require.NoError(t, Share{3, 2}.Validate())
	require.ErrorContains(t, Share{0, 0}.Validate(), "parallelism")
	require.ErrorContains(t, Share{3, 3}.Validate(), "index")
	require.ErrorContains(t, Share{3, -1}.Validate(), "index")
}

func TestDiff(t *testing.T) {
	id := func(b byte) (id [16]byte) { id[0] = b; return id }
	split := func(topic string, topicID byte, p int32) checkpoint.Split {
		return checkpoint.Split{Topic: topic, TopicID: id(topicID), Partition: p}
	}
	sub := Subscription{Topics: []string{"a", "b"}}
	for name, tc := range map[string]struct {
		known   []checkpoint.Split
		cluster []Topic
		share   Share
		want    Changes
		lost    string
	}{
		"nothing changed": {
			known:   []checkpoint.Split{split("a", 1, 0), split("b", 2, 0)},
			cluster: []Topic{{"a", id(1), []int32{0}}, {"b", id(2), []int32{0}}},
		},
		"new partitions": {
			known:   []checkpoint.Split{split("a", 1, 0)},
			cluster: []Topic{{"a", id(1), []int32{0, 1}}, {"b", id(2), []int32{0}}},
			want:    Changes{New: []Partition{{"a", 1}, {"b", 0}}},
		},
		"new partitions of another instance": {
			known:   []checkpoint.Split{split("a", 1, 0)},
			cluster: []Topic{{"a", id(1), []int32{0, 1}}},
			share:   Share{2, Owner(Partition{"a", 0}, 2)},
		},
		"topic gone": {
			known:   []checkpoint.Split{split("a", 1, 0), split("a", 1, 1), split("b", 2, 0)},
			cluster: []Topic{{"b", id(2), []int32{0}}},
			want:    Changes{Vanished: []Partition{{"a", 0}, {"a", 1}}},
			lost:    "partitions a 0, 1 do not exist any more",
		},
		"topic recreated": {
			known:   []checkpoint.Split{split("a", 1, 0), split("a", 1, 1)},
			cluster: []Topic{{"a", id(9), []int32{0, 1}}},
			want:    Changes{Recreated: []Recreation{{"a", id(1), id(9)}}},
			lost:    `topic "a" was deleted and created again`,
		},
		"no id on either side": {
			known:   []checkpoint.Split{split("a", 0, 0), split("b", 2, 0)},
			cluster: []Topic{{"a", id(9), []int32{0}}, {"b", id(0), []int32{0}}},
		},
		"a topic no longer subscribed is neither read nor missed": {
			known:   []checkpoint.Split{split("gone", 1, 0)},
			cluster: []Topic{{"other", id(3), []int32{0}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			share := tc.share
			if share == (Share{}) {
				share = Whole()
			}
			got := Diff(tc.known, sub, share, tc.cluster)
			require.Equal(t, tc.want, got)
			if tc.lost == "" {
				require.NoError(t, got.Lost())
			} else {
				require.ErrorContains(t, got.Lost(), tc.lost)
			}
		})
	}
}

func TestFormatGroupsByTopicAndIsBounded(t *testing.T) {
	require.Equal(t, "a 0, 2; b 1", Format([]Partition{{"b", 1}, {"a", 2}, {"a", 0}}))
	var many []Partition
	for n := range int32(100) {
		many = append(many, Partition{"a", n})
	}
	require.Contains(t, Format(many), " and 70 more")
	require.Less(t, len(Format(many)), 200)
}
