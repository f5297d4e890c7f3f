package demo

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/devbroker"
)

func TestDemoTellsAGoodPipelineFromABrokenOne(t *testing.T) {
	for _, tc := range []struct {
		mode  string
		stall time.Duration
		rows  []string
		err   string
	}{
		{mode: "exact", rows: []string{"lost 0", "doubled 0", "kills (SIGKILL) 2", "records in 5,000", "expected out 4,500", "seen (read_committed) 4,500"}},
		{mode: "lossy", rows: []string{"doubled 0"}, err: "lost (first: record "},
		{mode: "doubling", rows: []string{"lost 0"}, err: "doubled (first: record "},
		{mode: "careless", rows: []string{"lost 0", "altered 4,500"}, err: "4500 altered (first: record "},
		{mode: "forgetful", stall: 5 * time.Second, rows: []string{"doubled 0"}, err: "a transaction may have been left open"},
		{mode: "crashing", err: "the pipeline ended by itself: exit status 1\n--- end of "},
		{mode: "hanging", stall: 2 * time.Second, err: "nothing was committed for 2s, after 0 of 4,500 records"},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			var out bytes.Buffer
			err := Run(t.Context(), Options{Records: 5000, Kills: 2, Seed: 7, Command: fakeCommand(t, tc.mode), Out: &out, Stall: cmp.Or(tc.stall, time.Minute)})
			if tc.err == "" {
				require.NoError(t, err, out.String())
			} else {
				require.ErrorContains(t, err, tc.err)
			}
			if tc.mode == "crashing" {
				require.ErrorContains(t, err, "\nthis pipeline is out of order\n---")
			}
			table := squeezed(out.String())
			for _, row := range tc.rows {
				require.Contains(t, table, row+"\n")
			}
		})
	}
}

// squeezed makes one space of many and drops them at the ends of lines.
func squeezed(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestDemoFailsWhenThePipelineIsDoneBeforeTheKills(t *testing.T) {
	err := Run(t.Context(), Options{Records: 10, Kills: 1, Command: fakeCommand(t, "idle"), Out: io.Discard, Stall: time.Minute})
	require.ErrorContains(t, err, "ended after 0 of 1 kills; more --records give them more time")
}

func TestDemoRefusesWhatItCannotDo(t *testing.T) {
	require.ErrorContains(t, Run(t.Context(), Options{Records: 0, Kills: 3}), "--records 0")
	require.ErrorContains(t, Run(t.Context(), Options{Records: 1, Kills: -1}), "--kills -1")
}

func TestInterruptedDemoLeavesNothingBehind(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	out := &notifying{when: "kills 0 of 1, running", then: cancel}
	err := Run(ctx, Options{Records: 1000, Kills: 1, Command: fakeCommand(t, "hanging"), Out: out, Terminal: true, Stall: time.Minute})
	require.EqualError(t, err, "stopped after 0 of 900 records and 0 of 1 kills: context canceled")
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// notifying calls a function when a text is written.
type notifying struct {
	when string
	then func()
}

func (n *notifying) Write(p []byte) (int, error) {
	if strings.Contains(string(p), n.when) {
		n.then()
	}
	return len(p), nil
}

func TestKeptFolderIsNamedAndHoldsThePipeline(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	require.NoError(t, Run(t.Context(), Options{Records: 1000, Keep: true, Command: fakeCommand(t, "exact"), Out: &out, Stall: 5 * time.Second}))
	_, dir, found := strings.Cut(out.String(), "Kept: ")
	require.True(t, found)
	conf, err := os.ReadFile(filepath.Join(strings.TrimSpace(dir), "pipeline.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(conf), "kafka_flink_sink")
}

func TestKillsArePlannedWhileThereIsWorkLeft(t *testing.T) {
	for seed := range uint64(200) {
		plan := planKills(rand.New(rand.NewPCG(seed, 0)), 3, 1000)
		require.Len(t, plan, 3)
		for i, k := range plan {
			require.GreaterOrEqual(t, k.committed, int64(1))
			require.Less(t, k.committed, int64(750))
			require.Less(t, k.after, 2*interval)
			if i > 0 {
				require.GreaterOrEqual(t, k.committed, plan[i-1].committed)
			}
		}
		require.Equal(t, plan, planKills(rand.New(rand.NewPCG(seed, 0)), 3, 1000), "the same seed plans the same kills")
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	result{
		In: 200_000, Counts: devbroker.Counts{Expected: 180_000, Seen: 180_001, Doubled: 1}, Kills: 3, LongestPause: 1234 * time.Millisecond,
	}.print(&out)
	require.Equal(t, `
  records in                  200,000
  expected out                180,000
  seen (read_committed)       180,001
  lost                              0
  doubled                           1
  not expected                      0
  out of order                      0
  altered                           0
  kills (SIGKILL)                   3
  longest pause                1.23 s

`, out.String())
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 200_000: "200,000", 1_234_567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		require.Equal(t, want, thousands(n))
	}
}

func TestValueIsCheckedAgainstTheMapping(t *testing.T) {
	for value, ok := range map[string]bool{
		`{"n":1,"customer":"c","cents":7920,"vat_cents":1504}`:                 true,
		`{"n":1,"customer":"c","cents":7920,"vat_cents":1505}`:                 false,
		`{"n":1,"customer":"c","cents":7921,"vat_cents":1504}`:                 false,
		`{"n":2,"customer":"c","cents":7920,"vat_cents":1504}`:                 false,
		`{"n":1,"customer":"c","cents":7920,"vat_cents":1504,"status":"paid"}`: false,
		`{"n":1,"cents":7920,"vat_cents":1504}`:                                false,
		`no json`:                                                              false,
	} {
		if err := checkValue(1, []byte(value)); ok {
			require.NoError(t, err)
		} else {
			require.Error(t, err, value)
		}
	}
}
