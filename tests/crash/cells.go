package crash

import "strings"

// promise is what becomes of the records of one input in a cell of the table of guarantees.
type promise struct {
	// lost is what a crash may lose of them, twice what may be there twice after one; "nothing" is none.
	lost, twice string
	// whole is set where a batch is there as a whole or not at all.
	whole bool
}

const (
	nothing = "nothing"
	// onTheWay is what the sink has sent, or was about to, and no broker has acknowledged.
	onTheWay     = "what was on its way"
	sinceCommit  = "what came since the last commit"
	sinceRecord  = "what came since the last checkpoint"
	sentAgain    = "what its sender sends again"
	unset        = "unset"
	none         = "none"
	atLeastOnce  = "at-least-once"
	onceOnly     = "exactly-once"
	oursAlone    = "ours"
	othersAlone  = "other"
	mixed        = "mixed"
	refusedModes = "whose checkpoints commit no transactions"
	refusedMix   = "an input without checkpoints beside a checkpointed kafka_flink_source"
)

// guarantee is a cell: checkpoint.interval and checkpoint.mode of our source, delivery_guarantee of our sink, and the
// inputs there are.
type guarantee struct {
	checkpoint, sink, input string
	// ours is promised to records of our source, others to those of another input.
	ours, others promise
	// refusal is what the start-up says to a cell that can promise nothing.
	refusal string
}

func (g guarantee) name() string { return g.checkpoint + "/" + g.sink + "/" + g.input }

// guarantees are all cells. An input that is not ours has no checkpoints, so it stands alone under unset only.
func guarantees() (all []guarantee) {
	for _, checkpoint := range []string{unset, atLeastOnce, onceOnly} {
		for _, sink := range []string{none, atLeastOnce, onceOnly} {
			for _, input := range []string{oursAlone, othersAlone, mixed} {
				if input != othersAlone || checkpoint == unset {
					all = append(all, promised(checkpoint, sink, input))
				}
			}
		}
	}
	return all
}

func promised(checkpoint, sink, input string) guarantee {
	g := guarantee{
		checkpoint: checkpoint, sink: sink, input: input,
		ours:   promise{lost: nothing, twice: sinceRecord},
		others: promise{lost: nothing, twice: sentAgain, whole: sink == onceOnly},
	}
	if checkpoint == unset {
		g.ours.twice = sinceCommit
	}
	switch {
	case sink == none:
		g.ours.lost, g.others.lost = onTheWay, onTheWay
	case sink == onceOnly && checkpoint != unset && input == mixed:
		g.refusal = refusedMix
	case sink == onceOnly && checkpoint == atLeastOnce:
		g.refusal = refusedModes
	case sink == onceOnly && checkpoint == onceOnly:
		g.ours.twice = nothing
	}
	return g
}

// words are the cell's words in the table of docs/guarantees.md.
func (g guarantee) words() string {
	of := func(p promise) string { return "lost: " + p.lost + "; twice: " + p.twice }
	switch {
	case g.refusal != "":
		return "refused"
	case g.input == oursAlone:
		return of(g.ours)
	case g.input == othersAlone:
		return of(g.others)
	}
	return "each as if alone"
}

// guaranteeTable is the table of docs/guarantees.md.
func guaranteeTable() string {
	var b strings.Builder
	b.WriteString("| `checkpoint` | `delivery_guarantee` | our source alone | other inputs alone | both |\n|---|---|---|---|---|\n")
	cells := guarantees()
	for i := 0; i < len(cells); {
		first := cells[i]
		b.WriteString("| " + first.checkpoint + " | `" + first.sink + "` |")
		for _, input := range []string{oursAlone, othersAlone, mixed} {
			if i < len(cells) && cells[i].input == input {
				b.WriteString(" " + cells[i].words() + " |")
				i++
				continue
			}
			b.WriteString(" has no checkpoints |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// guaranteeText is the job of a cell: our source, an HTTP server, or both, into our sink. The value of a record is
// "ours/<partition>/<number>", or what a sender has sent.
func guaranteeText(g guarantee) string {
	source := `kafka_flink_source:
            {{ .Kafka.Block 12 }}
            topics: [ {{ .In }} ]
            group_id: {{ .Group }}
            metadata: [ partition, offset ]
            startup: { mode: group-offsets, offset_reset: earliest }
            `
	if g.checkpoint == unset {
		source += "auto_commit: { interval: 200ms }"
	} else {
		source += "checkpoint: { interval: 100ms, store: state, mode: " + g.checkpoint + " }"
	}
	server := `http_server: { address: "${ADDRESS}", path: /in, timeout: 60s }
          processors: [ { unarchive: { format: lines } } ]`
	inputs := "\n        - " + source + "\n        - " + server
	switch g.input {
	case oursAlone:
		inputs = "\n        - " + source
	case othersAlone:
		inputs = "\n        - " + server
	}
	caches, prefix := "", ""
	if g.checkpoint != unset {
		caches = "cache_resources: [ { label: state, pebble: { path: \"{{ .Dir }}/state\" } } ]\n"
	}
	if g.sink == onceOnly {
		prefix = "\n    transactional_id_prefix: {{ .Prefix }}"
	}
	return `# Written by the crash test.
http: { enabled: false }
logger: { level: INFO, add_timestamp: true }
shutdown_timeout: 30s
` + caches + `
input:
  broker:
    inputs:` + inputs + `

pipeline:
  threads: 1
  processors:
    - mapping: |
        root = if @kafka_offset == null { content() } else { "ours/" + @kafka_partition.string() + "/" + @kafka_offset.string() }
        meta kafka_tombstone_message = deleted()

output:
  kafka_flink_sink:
    {{ .Kafka.Block 4 }}
    topic: {{ .Out }}
    max_in_flight: 64
    delivery_guarantee: ` + g.sink + prefix + "\n"
}
