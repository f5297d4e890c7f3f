package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/devbroker"
)

// lookAside checks what a pipeline that has ended, with everything through, has written beside its topics.
func (tr *trial) lookAside() (lines []string, err error) {
	written := tr.producer.soFar()
	for _, side := range tr.scenario.sides {
		s := scenario{name: side.name, repeats: side.repeats, wanted: tr.scenario.wanted}
		s.twoTopics, s.json, s.unordered = tr.scenario.twoTopics, !side.copies, side.repeats
		c := newChecker(s.lanes(), tr.producer.record, s.comesOut)
		c.read = s.reader(tr.producer.record)
		c.keyedOrder = side.repeats
		records, err := side.read(tr)
		if err != nil {
			return lines, err
		}
		for _, r := range records {
			c.see(r)
		}
		v := c.result(written)
		lines = append(lines, fmt.Sprintf("%s: lost %d, doubled %d", side.name, v.lost, v.doubled))
		if !s.kept(v) {
			return lines, fmt.Errorf("%s was promised %s, and got: %v", side.name, s.promise(), v)
		}
	}
	return lines, nil
}

// topicOf is all that a topic shows to read_committed readers.
func topicOf(bootstrap []string, topic string) (records []*kgo.Record, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), stallLimit)
	defer cancel()
	fence, err := devbroker.FenceOf(ctx, bootstrap, topic)
	if err != nil {
		return nil, err
	}
	o, err := devbroker.Observe(bootstrap, topic)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	err = o.PollTo(ctx, fence, func(r *kgo.Record) { records = append(records, r) })
	return records, err
}

// rewrite writes the config again, with what has become known since.
func (tr *trial) rewrite() error { return tr.moved(tr.scenario, tr.names.Dir) }

// refusedAtStart starts a pipeline that is to be refused, and checks what it says.
func (tr *trial) refusedAtStart() error {
	p, err := tr.start()
	if err != nil {
		return err
	}
	defer p.Kill()
	select {
	case <-p.Done():
	case <-time.After(exitLimit):
		return tr.failed(fmt.Errorf("it was to be refused, and still runs after %s", exitLimit))
	}
	text, err := os.ReadFile(tr.log())
	if err != nil {
		return fmt.Errorf("reading the pipeline's log: %w", err)
	}
	if code, _ := lastWords(p, tr.log()); code != 1 || !strings.Contains(string(text), tr.scenario.refusal) {
		return tr.failed(fmt.Errorf("it was to be refused for %q, and ended with code %d", tr.scenario.refusal, code))
	}
	return nil
}

// moved is the trial's pipeline with a state folder of its own.
func (tr *trial) moved(s scenario, dir string) error {
	tr.names.Dir = dir
	text, err := s.config(tr.names)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of another pipeline: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, "job.yaml"), text, 0o644)
}
