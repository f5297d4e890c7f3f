package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/tidegate/tidegate/internal/child"
	"github.com/tidegate/tidegate/internal/devbroker"
)

// endedEarly is what a pipeline says that has ended by itself and could not have its last checkpoint.
const endedEarly = "has ended its input before every acknowledgement was back"

// endedWell tells whether a pipeline that may end by itself has done so: with everything committed, or saying that it is not.
func (tr *trial) endedWell(p *child.Process) bool {
	if !tr.scenario.ends || !p.Ended() {
		return false
	}
	code, words := lastWords(p, tr.log())
	return p.Err() == nil || code == 1 && strings.Contains(words, endedEarly)
}

// endedItself checks what a pipeline leaves that has ended by itself.
func (tr *trial) endedItself(p *child.Process) error {
	if code, _ := lastWords(p, tr.log()); code == 1 {
		tr.endedEarly++
		return nil
	}
	tr.endedWhole++
	if err := tr.checkStopped(); err != nil {
		return tr.failed(fmt.Errorf("after the pipeline has ended by itself, without error: %w", err))
	}
	return nil
}

// unrecovered is what a pipeline says that is stopped while it recovers.
const unrecovered = "stopped before it had settled what an earlier run left"

// stumbledAtTheEnd tells whether the pipeline was stopped before it had recovered, or a message was refused while it was
// stopping: there is no new attempt then, and the next start goes on from the checkpoint before.
func (tr *trial) stumbledAtTheEnd(p *child.Process) bool {
	if code, words := lastWords(p, tr.log()); code == 1 && strings.Contains(words, unrecovered) {
		return true
	}
	if !tr.scenario.stumbles && tr.callee == nil && !tr.shaken {
		return false
	}
	code, _ := lastWords(p, tr.log())
	text, err := os.ReadFile(tr.log())
	return code == 1 && err == nil && strings.Contains(string(text[tr.logBefore:]), "the next start goes on from the")
}

// checkStopped checks that nothing is pending on the broker and that the consumer group is where the output ends.
func (tr *trial) checkStopped() error {
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	if err := nothingPending(ctx, tr.cluster.Bootstrap(), tr.names.Prefix); err != nil {
		return err
	}
	if err := tr.readToEnd(ctx); err != nil {
		return err
	}
	offsets, err := tr.committed(ctx)
	if err != nil {
		return err
	}
	for partition, offset := range tr.scenario.due(offsets) {
		if err := tr.checker.agrees(int32(partition), offset); err != nil {
			return err
		}
	}
	return nil
}

// committed are the offsets of the consumer group, by partition through all topics of the input.
func (tr *trial) committed(ctx context.Context) ([]int64, error) {
	var all []int64
	for _, topic := range tr.scenario.inTopics(tr.names) {
		offsets, err := groupOffsets(ctx, tr.cluster.Bootstrap(), tr.names.Group, topic)
		if err != nil {
			return nil, err
		}
		for partition := range tr.scenario.each() {
			all = append(all, offsets[partition])
		}
	}
	return all, nil
}

// readToEnd reads the output up to where it ends now.
func (tr *trial) readToEnd(ctx context.Context) error {
	for _, topic := range tr.scenario.outTopics(tr.names) {
		fence, err := devbroker.FenceOf(ctx, tr.cluster.Bootstrap(), topic)
		if err != nil {
			return err
		}
		if err := tr.observer.PollTopicTo(ctx, topic, fence, tr.see); err != nil {
			return err
		}
	}
	return nil
}

// lastWords are a pipeline's exit code, -1 for a signal, and the cause it ended with.
func lastWords(p *child.Process, log string) (code int, words string) {
	var exit *exec.ExitError
	if errors.As(p.Err(), &exit) {
		code = exit.ExitCode()
	}
	text, err := os.ReadFile(log)
	if err != nil {
		return code, err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return code, lines[len(lines)-1]
}

// killedBy is the signal that ended a process, 0 where it was none.
func killedBy(err error) syscall.Signal {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0
	}
	return status.Signal()
}
