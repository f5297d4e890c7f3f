package parity

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/tests/realkafka"

	"github.com/tidegate/tidegate/tests/topics"
)

var (
	askFlink = flag.Bool("parity.flink", false, "ask Flink again, and compare with what it said")
	update   = flag.Bool("parity.update", false, "write down what Flink says now")
	only     = flag.String("parity.only", "", "a part of the names of the cases to run")
)

// absent stands for specific offsets that are not given although the mode needs them.
const absent = "\x00"

// table is every case.
func table() []parityCase {
	var all []parityCase
	for _, c := range slices.Concat(subscriptions(), startAndStop(), fallback(), specificStrings(), specifics(), ends(), future(), transactions(), discovery()) {
		if strings.Contains(c.file+": "+c.name, *only) {
			all = append(all, c)
		}
	}
	return all
}

// startKafka starts a broker that compacts soon.
func startKafka(t *testing.T) *realkafka.Cluster {
	t.Helper()
	return realkafka.Start(t, realkafka.Options{Properties: map[string]string{
		"log.cleaner.backoff.ms": "200", "log.cleaner.min.compaction.lag.ms": "0",
	}})
}

// all runs every case in an engine, several at a time, and returns what became of them by file and name.
func all(t *testing.T, kafka *realkafka.Cluster, e engine, shared *topics.World, cases []parityCase, atOnce int) []outcome {
	t.Helper()
	out := make([]outcome, len(cases))
	tokens := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, c := range cases {
		tokens <- struct{}{}
		wg.Go(func() {
			defer func() { <-tokens }()
			w := shared
			id := fmt.Sprintf("%s_%d", e.name(), i)
			if c.own {
				w = topics.New(t, kafka.Bootstrap(), id)
				made := c.topics
				if c.made != nil {
					made = c.made
				}
				for _, topic := range made {
					w.Create(topic)
				}
				w.Commit(c.group, made...)
			}
			out[i] = run(t, e, c, w, id)
		})
	}
	wg.Wait()
	return out
}

// sharedWorld has the topics that cases only read, each for all groups.
func sharedWorld(t *testing.T, kafka *realkafka.Cluster) *topics.World {
	t.Helper()
	w := topics.New(t, kafka.Bootstrap(), "shared")
	names := []string{"fixture", "pair", "empty", "gaps", "transactions", "compacted"}
	var wg sync.WaitGroup
	for _, topic := range names {
		wg.Go(func() { w.Create(topic) })
	}
	wg.Wait()
	for _, group := range topics.Groups() {
		w.Commit(group, names...)
	}
	return w
}

// TestFlinkSaysTheSame asks Flink again.
func TestFlinkSaysTheSame(t *testing.T) {
	if !*askFlink {
		t.Skip("asking Flink takes minutes and its jars: make parity")
	}
	cases, said := table(), load(t)
	kafka := startKafka(t)
	judge := startFlink(t)
	got := all(t, kafka, judge, sharedWorld(t, kafka), cases, 6)
	askOwners(t, judge)
	for i, c := range cases {
		if *update {
			if said[c.file] == nil {
				said[c.file] = map[string]outcome{}
			}
			said[c.file][c.name] = got[i]
			continue
		}
		t.Run(c.file+"/"+c.name, func(t *testing.T) {
			if want := said[c.file][c.name]; !got[i].same(want) {
				t.Errorf("said: %v\nsays: %v\n%s", want, got[i], got[i].Cause)
			}
		})
	}
	if *update {
		store(t, said)
	}
}

// TestParity holds us against what Flink said.
func TestParity(t *testing.T) {
	cases, said := table(), load(t)
	kafka := startKafka(t)
	got := all(t, kafka, startOurs(t), sharedWorld(t, kafka), cases, 16)
	for i, c := range cases {
		t.Run(c.file+"/"+c.name, func(t *testing.T) {
			want, ok := said[c.file][c.name]
			require.True(t, ok, "Flink was never asked: make parity")
			switch {
			case c.differs == "" && !got[i].same(want):
				t.Errorf("Flink: %v\nours:  %v\n%s", want, got[i], got[i].Cause)
			case c.differs != "" && got[i].same(want):
				t.Errorf("both: %v\nso this is no longer true: %s", want, c.differs)
			case c.differs != "" && !got[i].same(*c.ours):
				t.Errorf("Flink: %v\nours:  %v\nmeant: %v, since %s\n%s", want, got[i], *c.ours, c.differs, got[i].Cause)
			}
		})
		if *askFlink {
			verdict := "same"
			if c.differs != "" {
				verdict = "differs: " + c.differs
			}
			t.Logf("%s: %s | %v | %v | %s", c.file, c.name, said[c.file][c.name], got[i], verdict)
		}
	}
}

// TestGoldensHaveTheirCase finds answers whose question is gone.
func TestGoldensHaveTheirCase(t *testing.T) {
	names := map[string]bool{}
	for _, c := range table() {
		require.False(t, names[c.file+c.name], "%s: %s is there twice", c.file, c.name)
		names[c.file+c.name] = true
		require.Equal(t, c.differs != "", c.ours != nil, c.name)
	}
	for file, outcomes := range load(t) {
		for name := range outcomes {
			require.True(t, *only != "" || names[file+name], "%s: %s", file, name)
		}
	}
}

// load reads what Flink said.
func load(t *testing.T) map[string]map[string]outcome {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	all := map[string]map[string]outcome{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		outcomes := map[string]outcome{}
		require.NoError(t, json.Unmarshal(text, &outcomes), file)
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = outcomes
	}
	return all
}

func store(t *testing.T, all map[string]map[string]outcome) {
	t.Helper()
	for file, outcomes := range all {
		text, err := json.MarshalIndent(outcomes, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join("testdata", file+".json"), append(text, '\n'), 0o600))
	}
}
