package main

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/tests/binary"
	"github.com/tidegate/tidegate/tests/realkafka"
)

// TestEachSystemIsMeasured runs the benchmark on a few records. Its numbers say nothing then, but every copy is verified.
func TestEachSystemIsMeasured(t *testing.T) {
	kafka := realkafka.Start(t, realkafka.Options{})
	dir := t.TempDir()
	s := settings{
		connect: binary.Connect(t), floor: filepath.Join(dir, "floor"), records: 20_000, rounds: 1,
		systems: "floor,at-least-once,exactly-once",
	}
	out, err := exec.Command("go", "build", "-o", s.floor, "./floor").CombinedOutput()
	require.NoError(t, err, string(out))
	b := &bench{settings: s, dir: dir, bootstrap: kafka.Bootstrap(), broker: kafka.PID(0)}
	require.NoError(t, b.open())
	defer b.close()
	require.NoError(t, b.load(t.Context()))
	results, err := b.measureAll(t.Context())
	require.NoError(t, err)
	require.Len(t, results, 3)
	for _, r := range results {
		require.Positive(t, r.took, r.system)
		require.Positive(t, r.cpu, r.system)
		require.Positive(t, r.rss, r.system)
		if b.broker != 0 { // it is ours
			require.Positive(t, r.brokerCPU, r.system)
		}
	}
}

func TestAuditFindsWhatIsWrongWithACopy(t *testing.T) {
	record := func(n int64, partition int32) *kgo.Record {
		value := make([]byte, valueBytes)
		fillValue(value, n)
		return &kgo.Record{Key: value[:keyBytes], Value: value, Partition: partition}
	}
	altered := record(1, 0)
	altered.Value[50]++
	for _, tc := range []struct {
		name    string
		copy    []*kgo.Record
		wantErr string
	}{
		{name: "nothing", copy: []*kgo.Record{record(0, 0), record(1, 0), record(5, 0), record(2, 3), record(3, 0), record(4, 1)}},
		{name: "lost", copy: []*kgo.Record{record(0, 0), record(1, 0), record(5, 0), record(2, 3), record(3, 0)},
			wantErr: "of 6 records 1 are lost, 0 doubled, 0 altered, 0 out of order"},
		{name: "doubled", copy: []*kgo.Record{record(0, 0), record(1, 0), record(5, 0), record(2, 3), record(3, 0), record(4, 1), record(4, 1)},
			wantErr: "0 are lost, 1 doubled"},
		{name: "altered", copy: []*kgo.Record{record(0, 0), altered, record(5, 0), record(2, 3), record(3, 0), record(4, 1)},
			wantErr: "0 are lost, 0 doubled, 1 altered"},
		{name: "order of a partition", copy: []*kgo.Record{record(0, 0), record(5, 0), record(1, 0), record(2, 3), record(3, 0), record(4, 1)},
			wantErr: "0 are lost, 0 doubled, 0 altered, 1 out of order"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAudit(6)
			for _, r := range tc.copy {
				a.see(r)
			}
			if tc.wantErr == "" {
				require.NoError(t, a.err())
				return
			}
			require.ErrorContains(t, a.err(), tc.wantErr)
		})
	}
}

func TestReportSaysWhetherTheAimsAreMet(t *testing.T) {
	run := func(system string, rate, mb int64) result {
		return result{system: system, records: rate, took: time.Second, cpu: time.Second, rss: mb << 20}
	}
	for _, tc := range []struct {
		name       string
		results    []result
		wantMissed bool
		want       []string
	}{
		{name: "met", results: []result{run(floor, 900, 80), run(exactlyOnce, 550, 200), run(floor, 1100, 80)},
			want: []string{"| exactly-once | 1 k | 0.55 |", "the floors differ by 20 %", "met     exactly-once at 0.55", "met     exactly-once with 200 MB"}},
		{name: "too slow", results: []result{run(floor, 1000, 80), run(exactlyOnce, 549, 80)}, wantMissed: true,
			want: []string{"MISSED  exactly-once at 0.549 of the floor; aim: at least 0.55", "met     exactly-once with 80 MB"}},
		{name: "too large", results: []result{run(floor, 1000, 80), run(atLeastOnce, 100, 201)}, wantMissed: true,
			want: []string{"MISSED  at-least-once with 201 MB at its peak; aim: at most 200 MB"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table, missed := report(tc.results)
			require.Equal(t, tc.wantMissed, missed)
			for _, want := range tc.want {
				require.Contains(t, table, want)
			}
		})
	}
}
