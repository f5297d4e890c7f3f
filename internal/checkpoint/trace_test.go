package checkpoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// TestTraces replays the scenarios in testdata/traces: each command is an event, its output are the actions that the
// Machine answers with. Run with -rewrite to accept a change, and read the diff: it is the protocol.
//
// Commands: new [interval=] [min_pause=] [timeout=] [max_concurrent=] [tolerable=] [max_restarts=] [allow_non_restored]
// [sources=a,b] [sinks=x,y] [pool=3] [policy=replay|fail|continue] [restore] begins with the record that the Machine
// before had written last; resolved takes publish where the positions might be others the next time; every other command is an event in the words of its String method, see traceEvent.
func TestTraces(t *testing.T) {
	datadriven.Walk(t, "testdata/traces", func(t *testing.T, path string) {
		tr := &tracer{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return tr.run(t, d)
		})
	})
}

type tracer struct {
	m *Machine
	// written is the last record the Machine asked to write, recorded the last one it was told is durable.
	written, recorded *Record
	txns              int64
}

func (tr *tracer) run(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd == "new" {
		tr.m = tr.machine(t, d)
		return tr.step(Begin{})
	}
	return tr.step(tr.event(t, d))
}

func (tr *tracer) step(ev Event) string {
	if w, ok := ev.(WriteDone); ok && w.Outcome == Durable {
		tr.recorded = tr.written
	}
	return tr.show(tr.m.Step(ev))
}

// show prints the actions; Seal is answered at once, as the contract says, with what seal commands have announced.
func (tr *tracer) show(actions []Action) string {
	var b strings.Builder
	for _, a := range actions {
		fmt.Fprintln(&b, a)
		if w, ok := a.(Write); ok {
			tr.written = w.Record
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func (tr *tracer) machine(t *testing.T, d *datadriven.TestData) *Machine {
	cfg := Config{Interval: time.Second, Timeout: time.Minute, MaxConcurrent: 1, MaxRestarts: -1}
	duration := func(key string, to *time.Duration) {
		var text string
		if d.MaybeScanArgs(t, key, &text) {
			v, err := time.ParseDuration(text)
			require.NoError(t, err)
			*to = v
		}
	}
	duration("interval", &cfg.Interval)
	duration("min_pause", &cfg.MinPause)
	duration("timeout", &cfg.Timeout)
	d.MaybeScanArgs(t, "max_concurrent", &cfg.MaxConcurrent)
	d.MaybeScanArgs(t, "tolerable", &cfg.TolerableFailures)
	d.MaybeScanArgs(t, "max_restarts", &cfg.MaxRestarts)
	cfg.AllowNonRestored = d.HasArg("allow_non_restored")
	pool, prefix, policy := 3, "", "replay"
	d.MaybeScanArgs(t, "pool", &pool)
	d.MaybeScanArgs(t, "prefix", &prefix)
	d.MaybeScanArgs(t, "policy", &policy)
	sources, sinks := "src", "out"
	d.MaybeScanArgs(t, "sources", &sources)
	d.MaybeScanArgs(t, "sinks", &sinks)
	var sourceSeats []SourceSeat
	for _, k := range strings.Split(sources, "+") {
		sourceSeats = append(sourceSeats, SourceSeat{Key: k})
	}
	var sinkSeats []SinkSeat
	for _, k := range strings.Split(sinks, "+") {
		sinkSeats = append(sinkSeats, SinkSeat{
			Key: k, Pool: Pool{Prefix: prefix + k, Size: int32(pool)},
			OnLost: map[string]Policy{"replay": Replay, "fail": Fail, "continue": Continue}[policy],
		})
	}
	var newest *Record
	if d.HasArg("restore") {
		// Through its durable form, as a process that starts reads it.
		var err error
		newest, err = DecodeRecord(EncodeRecord(tr.recorded))
		require.NoError(t, err)
	}
	return NewMachine(cfg, "", sourceSeats, sinkSeats, newest)
}

// event reads a command: its name, key=value arguments, and where a source's position is meant, src=…, at=… and end.
func (tr *tracer) event(t *testing.T, d *datadriven.TestData) Event {
	str := func(key, otherwise string) string {
		d.MaybeScanArgs(t, key, &otherwise)
		return otherwise
	}
	num := func(key string, otherwise uint64) uint64 {
		d.MaybeScanArgs(t, key, &otherwise)
		return otherwise
	}
	position := func() SourceState {
		at, err := strconv.ParseInt(str("at", "0"), 10, 64)
		require.NoError(t, err)
		st := SourceState{Source: str("src", "src"), Parallelism: 1, Finished: d.HasArg("finished"), Publish: d.HasArg("publish")}
		st.Splits = []Split{{Topic: "t", Offset: at, Stop: NoStop, LeaderEpoch: -1}}
		return st
	}
	cause := errors.New(str("cause", "it broke"))
	switch d.Cmd {
	case "verified":
		return Verified{Key: str("key", "src")}
	case "committed":
		ev := CommitDone{Checkpoint: num("n", 0)}
		for _, v := range strings.Split(str("verdicts", "committed"), "+") {
			verdict := map[string]Verdict{
				"committed": Committed, "aborted": Aborted, "unknown": Unknown, "not-tried": NotTried,
			}[v]
			require.NotZero(t, verdict, v)
			ev.Verdicts = append(ev.Verdicts, verdict)
		}
		return ev
	case "resolved":
		return Resolved{State: position()}
	case "written":
		outcome := map[string]Outcome{"durable": Durable, "failed": NotWritten, "unknown": OutcomeUnknown}[str("outcome", "durable")]
		return WriteDone{Number: num("record", tr.written.Number), Outcome: outcome, Cause: cause}
	case "ids-ready":
		return IDsReady{Sink: str("sink", "out")}
	case "drained":
		return Drained{Checkpoint: num("n", 0), State: position()}
	case "flushed":
		return Flushed{Checkpoint: num("n", 0), Sink: str("sink", "out")}
	case "sealed":
		ev := Sealed{Checkpoint: num("n", 0), Sink: str("sink", "out")}
		if records := num("records", 0); records > 0 {
			tr.txns++
			ev.Committable = &Committable{
				Sink: ev.Sink, TransactionalID: str("id", ""), ProducerID: tr.txns, Records: int64(records),
			}
		}
		return ev
	case "halted":
		return Halted{Attempt: num("attempt", 0), Key: str("key", "src")}
	case "aborted":
		return AbortDone{Sink: str("sink", "out"), ID: int32(num("id", 0))}
	case "fired":
		kind := map[string]TimerKind{
			"interval": TimerInterval, "pause": TimerPause, "timeout": TimerTimeout, "write": TimerWrite,
			"halt": TimerHalt, "restart": TimerRestart,
		}
		k, ok := kind[str("timer", "")]
		require.True(t, ok)
		return Fired{Timer: Timer{Kind: k, Of: num("of", 0)}}
	case "failed":
		return Failed{Attempt: num("attempt", 0), Cause: cause}
	case "broken":
		return Broken{Cause: cause}
	case "at-end":
		return AtEnd{Attempt: num("attempt", 1), Source: str("src", "src")}
	case "closing":
		return Closing{Source: str("src", "src"), Hard: d.HasArg("hard")}
	case "joined":
		return Joined{Source: str("src", "src")}
	}
	t.Fatalf("unknown command %q", d.Cmd)
	return nil
}
