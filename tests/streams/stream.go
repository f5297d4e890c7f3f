package streams

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"sync"
	"time"
)

// Stream is a stream that was started.
type Stream struct {
	host       *Host
	name, path string
	over       chan struct{}
	stop       chan struct{}
	stopOnce   sync.Once
	watching   sync.WaitGroup
	failure    string // set before over is closed
}

// watch waits for the stream's end, which the API tells, or its failure, which the log does.
func (s *Stream) watch() {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		if failed := s.host.Logged(s.name, "the stream has failed"); len(failed) > 0 {
			s.failure = failed[0]["cause"]
			close(s.over)
			return
		}
		code, answer := s.host.ask(http.MethodGet, "/streams/"+s.name, nil)
		var state struct{ Active bool }
		if code == http.StatusOK && json.Unmarshal([]byte(answer), &state) == nil && !state.Active {
			close(s.over)
			return
		}
	}
}

// Rows are the records that have come so far.
func (s *Stream) Rows() []Row {
	text, err := os.ReadFile(s.path)
	if err != nil {
		return nil
	}
	var out []Row
	for line := range bytes.Lines(text) {
		var r Row
		fields := []any{&r.Topic, &r.Partition, &r.Offset, &r.Value, &r.TimestampMS}
		if bytes.HasSuffix(line, []byte("\n")) && json.Unmarshal(line, &fields) == nil {
			out = append(out, r)
		}
	}
	return out
}

// Done is closed when the stream has ended by itself, or failed.
func (s *Stream) Done() <-chan struct{} { return s.over }

// Failure is why the stream has failed, or was refused; empty where it has ended well.
func (s *Stream) Failure() string {
	select {
	case <-s.over:
		return s.failure
	default:
		return ""
	}
}

// Stop stops the stream as an operator would, with a last checkpoint, and removes it.
func (s *Stream) Stop() {
	s.stopOnce.Do(func() { close(s.stop) })
	s.watching.Wait()
	if code, answer := s.host.ask(http.MethodDelete, "/streams/"+s.name, nil); code != http.StatusOK && code != http.StatusNotFound {
		s.host.t.Errorf("removing stream %s: %d %s", s.name, code, answer)
	}
}
