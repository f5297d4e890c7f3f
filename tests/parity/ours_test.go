package parity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/tests/streams"
)

// ours is the binary in streams mode: every job is a stream.
type ours struct{ host *streams.Host }

func startOurs(t testing.TB) ours { return ours{streams.Start(t)} }

func (ours) name() string            { return "ours" }
func (ours) patience() time.Duration { return streams.Patience }
func (ours) settle() time.Duration   { return time.Second }

func (o ours) start(tr *trial, _ string) job { return stream{o.host.Run(tr.id, tr.source())} }

// stream is a job of ours. What it saves is in the store, under its name.
type stream struct{ *streams.Stream }

func (s stream) rows() []streams.Row   { return s.Rows() }
func (s stream) done() <-chan struct{} { return s.Done() }
func (s stream) failure() string       { return s.Failure() }
func (s stream) cancel()               { s.Stop() }

func (s stream) save() string {
	s.Stop()
	return ""
}

func (tr *trial) source() map[string]any {
	in := map[string]any{"bootstrap_servers": tr.world.Bootstrap}
	switch {
	case tr.pattern != "":
		in["topic_pattern"] = tr.regex()
	case tr.partitions != nil:
		in["partitions"] = tr.real(tr.partitions)
	default:
		in["topics"] = tr.real(tr.topics)
	}
	if tr.group != "" {
		in["group_id"] = tr.world.Group(tr.group)
	}
	if tr.readCommitted {
		in["isolation_level"] = "read_committed"
	}
	if tr.discovery != 0 {
		in["discovery_interval"] = fmt.Sprintf("%dms", max(0, tr.discovery.Milliseconds()))
	}
	startup, bounded := tr.position(tr.start), tr.position(tr.stop)
	if tr.start.reset != "" {
		startup["offset_reset"] = tr.start.reset
	}
	if tr.stop.keepRunning {
		bounded["keep_running"] = true
	}
	in["startup"], in["bounded"] = startup, bounded
	if tr.checkpoints {
		in["checkpoint"] = map[string]any{"interval": "100ms", "store": "state"}
	} else if tr.group != "" {
		// Flink commits nothing either without checkpoints.
		in["auto_commit"] = map[string]any{"enabled": false}
	}
	return in
}

func (tr *trial) position(p position) map[string]any {
	out := map[string]any{}
	if p.mode != "" {
		out["mode"] = p.mode
	}
	switch {
	case p.mode == "timestamp":
		out["timestamp"] = p.timestamp
	case p.offsets != nil:
		byTopic := map[string]map[string]int64{}
		for at, o := range p.offsets {
			topic, partition, _ := strings.Cut(at, ":")
			topic = tr.world.Topic(topic)
			if byTopic[topic] == nil {
				byTopic[topic] = map[string]int64{}
			}
			byTopic[topic][partition] = o
		}
		out["specific_offsets"] = byTopic
	case p.mode == "specific-offsets" && p.specific != absent:
		out["specific_offsets"] = p.specific
	}
	return out
}
