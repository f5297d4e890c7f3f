package crash

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// identityOf is what toJSON makes of a record, as a piece.
func identityOf(partition int32, n, piece int64) string {
	return fmt.Sprintf(`{"id":"%d:%d","piece":%d,"sum":"%x"}`, partition, n, piece, sha256.Sum256(original(partition, n).Value))
}

func TestShapeIsJudgedByWhatItPromises(t *testing.T) {
	at := func(topic string, values ...string) (records []*kgo.Record) {
		for _, v := range values {
			records = append(records, &kgo.Record{Topic: topic, Value: []byte(v)})
		}
		return records
	}
	copies := func(topic string, numbers ...int64) (records []*kgo.Record) {
		for _, n := range numbers {
			r := original(0, n)
			r.Topic = topic
			records = append(records, r)
		}
		return records
	}
	pieces := shape{json: true, pieces: 2}
	// Two records were written to the first partition of four, or of eight.
	written := []int64{2, 0, 0, 0}
	for name, tc := range map[string]struct {
		s    scenario
		seen []*kgo.Record
		kept bool
		want string
	}{
		"all pieces":                   {scenario{shape: pieces}, at("o", identityOf(0, 0, 0), identityOf(0, 0, 1), identityOf(0, 1, 0), identityOf(0, 1, 1)), true, ""},
		"all in one record":            {scenario{shape: shape{json: true}}, at("o", "["+identityOf(0, 0, 0)+","+identityOf(0, 1, 0)+"]"), true, ""},
		"a piece is lost":              {scenario{shape: pieces}, at("o", identityOf(0, 0, 0), identityOf(0, 1, 0), identityOf(0, 1, 1)), false, "lost: record 0:1"},
		"a piece is doubled":           {scenario{shape: pieces}, at("o", identityOf(0, 0, 0), identityOf(0, 0, 1), identityOf(0, 0, 0), identityOf(0, 1, 0), identityOf(0, 1, 1)), false, "doubled: record 0:0"},
		"a piece too many":             {scenario{shape: pieces}, at("o", identityOf(0, 0, 2)), false, "has no piece 2"},
		"doubled within a record":      {scenario{shape: shape{json: true}}, at("o", "["+identityOf(0, 0, 0)+","+identityOf(0, 0, 0)+","+identityOf(0, 1, 0)+"]"), false, "doubled"},
		"another value":                {scenario{shape: shape{json: true}}, at("o", `{"id":"0:0","sum":"ff"}`), false, "altered"},
		"no identity":                  {scenario{shape: shape{json: true}}, at("o", `nothing`), false, "is no identity"},
		"both, in both":                {scenario{shape: shape{outlets: both}}, append(copies("o", 0, 1), copies("o2", 0, 1)...), true, ""},
		"both, lost in one":            {scenario{shape: shape{outlets: both}}, append(copies("o", 0, 1), copies("o2", 1)...), false, "lost: record 4:0"},
		"either, each in one":          {scenario{shape: shape{outlets: either}}, append(copies("o", 1), copies("o2", 0)...), true, ""},
		"either, one in both":          {scenario{shape: shape{outlets: either}}, append(copies("o", 0, 1), copies("o2", 0)...), false, "doubled: record 0:0"},
		"each where it belongs":        {scenario{shape: shape{outlets: evenAndOdd}}, append(copies("o", 0), copies("o2", 1)...), true, ""},
		"one where it does not belong": {scenario{shape: shape{outlets: evenAndOdd}}, append(copies("o", 0, 1), copies("o2", 1)...), false, "foreign: record 0:1 was to be left out"},
		"out of order":                 {scenario{}, copies("o", 1, 0), false, "disordered"},
		"out of order, not promised":   {scenario{shape: shape{unordered: true}}, copies("o", 1, 0), true, "disordered"},
		"out of order, by threads":     {scenario{threads: 4}, copies("o", 1, 0), true, ""},
		"lost, allowed":                {scenario{shape: shape{lossy: true}}, copies("o", 1), true, "lost"},
		"lossy, but doubled":           {scenario{shape: shape{lossy: true}}, copies("o", 0, 0), false, "doubled"},
	} {
		t.Run(name, func(t *testing.T) {
			c := tc.s.newChecker(names{Out: "o", Out2: "o2"}, original)
			for _, r := range tc.seen {
				c.see(r)
			}
			v := c.result(tc.s.due(written))
			require.Equal(t, tc.kept, tc.s.kept(v), v)
			require.Contains(t, v.String(), tc.want)
		})
	}
}

func TestEveryShapeHasANameAPromiseAndAConfigOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range shapes() {
		require.False(t, seen[s.name], s.name)
		seen[s.name] = true
		require.NotEmpty(t, s.promise())
		text, err := s.config(names{Dir: "/tmp/x", Prefix: "p", Out: "o", Out2: "o2", In: "i", In2: "i2"})
		require.NoError(t, err, s.name)
		require.NotContains(t, string(text), "<no value>", s.name)
		require.NotContains(t, string(text), "{{", s.name)
	}
	require.Len(t, pickShapes("archive,none"), 1)
	require.Len(t, pickShapes("shapes"), len(seen))
	for _, name := range fewShapes {
		require.Len(t, pickShapes(name), 1, name)
	}
}
