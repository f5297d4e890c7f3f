package splits

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

func TestSubscriptionValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		sub Subscription
		err string
	}{
		"one":          {Subscription{Topics: []string{"a"}}, ""},
		"two":          {Subscription{Topics: []string{"a", "b"}}, ""},
		"pattern":      {Subscription{Pattern: regexp.MustCompile("a")}, ""},
		"partitions":   {Subscription{Partitions: []Partition{{"a", 0}}}, ""},
		"none":         {Subscription{}, "no topic given"},
		"empty":        {Subscription{Topics: []string{"a", " "}}, "entry 1 is empty"},
		"twice":        {Subscription{Topics: []string{"a", "b", "a"}}, `"a" is listed twice`},
		"two in one":   {Subscription{Topics: []string{"a;b"}}, `topics: "a;b" cannot be the name of a topic, which has up to 249 letters of a to z, digits, points, dashes and underscores; name several topics in a list`},
		"star":         {Subscription{Topics: []string{"a*"}}, "a pattern belongs into topic_pattern"},
		"blank":        {Subscription{Topics: []string{"a "}}, "take the blanks out"},
		"umlaut":       {Subscription{Partitions: []Partition{{"ä", 0}}}, `partitions: "ä" cannot be the name of a topic`},
		"points":       {Subscription{Topics: []string{".."}}, "correct the name"},
		"all there is": {Subscription{Topics: []string{"A_z.0-9", "__consumer_offsets", "..."}}, ""},
		"two kinds":    {Subscription{Topics: []string{"a"}, Pattern: regexp.MustCompile("a")}, "topics, topic_pattern: only one of them can be set"},
		"three kinds": {Subscription{Topics: []string{"a"}, Pattern: regexp.MustCompile("a"), Partitions: []Partition{{"a", 0}}},
			"topics, topic_pattern, partitions: only one"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.sub.Validate()
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
	var missing *MissingError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, []string{"no", "unready"}, missing.Topics)
	require.ErrorContains(t, err, `topics: "no", "unready": no such topic`)
}

func TestSelectByPattern(t *testing.T) {
	cluster := []Topic{
		{Name: "orders-1", Partitions: []int32{0, 1}}, {Name: "orders-2", Partitions: []int32{0}},
		{Name: "my-orders-1", Partitions: []int32{0}}, {Name: "orders-1-dead", Partitions: []int32{0}},
	}
	for pattern, want := range map[string][]Partition{
		"orders-[0-9]":      {{"orders-1", 0}, {"orders-1", 1}, {"orders-2", 0}}, // the whole name, not a part of it
		"orders-1|orders-2": {{"orders-1", 0}, {"orders-1", 1}, {"orders-2", 0}},
		"orders":            nil,
		"(?i)ORDERS-2":      {{"orders-2", 0}},
	} {
		re, err := ParsePattern(pattern)
		require.NoError(t, err)
		sub := Subscription{Pattern: re}
		require.Empty(t, sub.Names(), "all topics are asked for")
		parts, err := sub.Select(Whole(), cluster)
		require.NoError(t, err)
		require.Equal(t, want, parts, pattern)
	}
}

func TestSelectOfPartitionsTakesExactlyThem(t *testing.T) {
	cluster := []Topic{{Name: "a", Partitions: []int32{0, 1, 2}}, {Name: "b", Partitions: []int32{0}}}
	sub := Subscription{Partitions: []Partition{{"b", 0}, {"a", 2}, {"a", 0}}}
	require.Equal(t, []string{"b", "a"}, sub.Names())
	parts, err := sub.Select(Whole(), cluster)
	require.NoError(t, err)
	require.Equal(t, []Partition{{"a", 0}, {"a", 2}, {"b", 0}}, parts)

	_, err = Subscription{Partitions: []Partition{{"a", 3}, {"a", 0}, {"b", 1}}}.Select(Whole(), cluster)
	require.ErrorContains(t, err, "partitions: a 3; b 1: the topic has no such partition")
	_, err = Subscription{Partitions: []Partition{{"c", 0}, {"a", 9}}}.Select(Whole(), cluster)
	require.ErrorContains(t, err, `partitions: "c": no such topic`)
}

func TestParsePattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                  "matches no name",
		"orders-(":          `"orders-(" is no pattern`,
		"*":                 `"*" is no pattern`,
		"orders-(?!test).*": "has a lookaround, which Java's patterns know",
		"(?<=a)b":           "has a lookaround",
		"(?>a|b)c":          "has an atomic group",
		"orders-.*+":        "has a possessive quantifier",
		`(.)-\1`:            "has a back reference",
		`\p{javaLowerCase}`: "has a Java character class",
		`\p{IsLatin}+`:      "has a Java character class",
		`\hx`:               "has an escape",
		`[a-z&&[^o]]+`:      "has a character class within another, or an intersection of classes",
		`orders-[a-c[x-z]]`: "has a character class within another",
		`[\w&&\D]`:          "an intersection of classes (&&)",
	} {
		_, err := ParsePattern(pattern)
		require.ErrorContains(t, err, want, pattern)
	}
	for _, pattern := range []string{`[[:alpha:]]+-[0-9]`, `[a-z]+[0-9]|([b])[c]`, `[\w.-]+`, `[^[:digit:]x]*`, `[a&b]&&[c]`} {
		_, err := ParsePattern(pattern)
		require.NoError(t, err, pattern)
	}
}

func TestParsePartitions(t *testing.T) {
	got, err := ParsePartitions([]string{"orders:0-3", "users:7", "with:colon:2", " spaced : 1 - 2 "})
	require.NoError(t, err)
	require.Equal(t, []Partition{
		{"orders", 0}, {"orders", 1}, {"orders", 2}, {"orders", 3}, {"users", 7}, {"with:colon", 2}, {"spaced", 1}, {"spaced", 2}}, got)
	for entry, want := range map[string]string{
		"orders":              `"orders" names no partition`,
		":0":                  `":0" names no topic`,
		"orders:":             `"" is not the number of a partition`,
		"orders:x":            `"x" is not the number`,
		"orders:3-1":          "from 3 to 1 is no range",
		"orders:0-":           `"" is not the number`,
		"orders:-1":           `"" is not the number`,
		"orders:0-2147483647": "is no range of 1 to 100000 partitions",
		"orders:2147483648":   "is not the number of a partition",
	} {
		_, err := ParsePartitions([]string{entry})
		require.ErrorContains(t, err, want, entry)
	}
	_, err = ParsePartitions([]string{"orders:0-3", "orders:2"})
	require.ErrorContains(t, err, `"orders:2" names orders-2, which is listed already`)
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
