package conformance

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ids are those of the reference: builder and options, subscribing and offsets, reading, derived.
const ids = `
S1 S3 S6 S9 S10 S11 S14 S16 S17 S17b S18 S19 S20
E1 E2 E3 E4 E5 E6 E7 E8 E9 E11 E13 E14 E15 E16 E18 E20 E21 E23 E24 E25 E26 E28 E29 E30 E31 E32 E33 E34 E35
R2 R3 R4 R5 R6 R10 R14 R15 R16 R17 R18 R19 R20 R23 R24 R27 R29 R30 R31 R32 R36 R37
G1 G2 G3 G4 G5 G6 G7 G8 G9 G10 G11 G12 G13 G15 G17 G18 G19 G20 G21 G22 G23 G23b G24 G25 G26 G27 G28 G29 G31 G32 G33 G34
G37 G38 G41 G42 G43 G44 G45 G46`

// elsewhere are ids that have no test here, and why. A test that is named does the same in another place.
var elsewhere = map[string]string{
	"S10": "there is no custom subscriber: a config names topics, a pattern or partitions",
	"S11": "there is no custom subscriber",
	"S14": "there are no deserializer classes; messages are bytes",
	"S19": "Flink's lineage",
	"S20": "Flink's lineage",

	"E25": "properties reach every client: TestEveryPropertyHasItsEffectOnTheClient; the prefix of client ids is S18",
	"E26": "a checkpoint that holds no positions does not exist here: they are resolved and written before the first record (rule 2)",
	"E28": "as E26: the set of partitions is written whole, before any of them is read",
	"E29": "as E26",
	"E31": "Flink's serializers; ours have TestEncodeDecode in internal/checkpoint",
	"E32": "state of older versions of Flink",
	"E33": "state of older versions of Flink",
	"E34": "Flink's serializers",
	"E35": "savepoints of older versions of Flink",

	"R2":  "wake-ups of Flink's split reader",
	"R3":  "wake-ups of Flink's split reader",
	"R10": "pausing splits is Flink's watermark alignment, and there are no watermarks",
	"R19": "as R10",
	"R20": "there is no supplier to be called late: rack is a value, TestRackReadsFromTheNearestReplicaAndSurvivesItsDeath",
	"R23": "an accessor of Flink's metrics in Java",

	"G18": "nothing is deserialised; what a pipeline refuses takes the stream back to its last checkpoint: TestRefusedBatchTakesTheStreamBackToItsLastCheckpoint",
	"G25": "formats are not there yet",
	"G26": "formats are not there yet",
	"G27": "formats are not there yet",
	"G28": "the sink's timestamp comes from the record it copies: TestMetadataIsExactlyWhatIsListed; Flink's table sink is no source",
	"G29": "a sink's partitioner",
	"G31": "a table sink's routing",
	"G32": "a table sink's routing",
	"G33": "an upsert sink's buffer",
	"G34": "an upsert source's changelog",
	"G37": "a sink's transactions", "G38": "a sink's transactions", "G41": "a sink's transactions", "G42": "a sink's transactions",
	"G43": "a sink's transactions", "G44": "a sink's partitioner", "G45": "a sink's transactions", "G46": "a sink's transactions",
}

// TestEveryIDIsAccountedFor: an id is tested here, or there is a reason, and never two of these.
func TestEveryIDIsAccountedFor(t *testing.T) {
	tested := tested()
	all := strings.Fields(ids)
	for _, id := range all {
		n := 0
		for _, in := range []bool{tested[id], elsewhere[id] != ""} {
			if in {
				n++
			}
		}
		require.Equal(t, 1, n, "%s: tested %v, elsewhere %q", id, tested[id], elsewhere[id])
	}
	for id := range elsewhere {
		require.Contains(t, all, id)
	}
	for _, id := range slices.Sorted(maps.Keys(tested)) {
		require.Contains(t, all, id)
	}
}

func tested() map[string]bool {
	out := map[string]bool{}
	for _, r := range reads() {
		out[r.id] = true
	}
	for id := range behaviours {
		out[id] = true
	}
	return out
}
