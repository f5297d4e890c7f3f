package benthosx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/checkpoint"
)

// streamKey is the key of a stream's coordinator among the generics, which all streams of a process share.
type streamKey struct{ streamID string }

// StreamOf returns the coordinator of the stream that the resources belong to: source and sinks find the same one.
// It outlives a restart of the stream, so components join and leave it explicitly.
func StreamOf(res *service.Resources) *checkpoint.Stream {
	key := streamKey{res.StreamID()}
	if v, ok := res.GetGeneric(key); ok {
		return v.(*checkpoint.Stream)
	}
	log := Logger(res).With("component", "checkpoint")
	v, _ := res.GetOrSetGeneric(key, checkpoint.NewStream(checkpoint.StreamOptions{
		ID:      res.StreamID(),
		Version: res.EngineVersion(),
		Logger:  log,
		Metrics: &streamMetrics{to: res.Metrics()},
		Fatal: func(cause error) {
			if res.StreamID() != "" {
				log.Error("the stream has failed; the process and its other streams go on", "cause", cause)
				return
			}
			log.Error("the process ends", "cause", cause)
			Fatal(cause)
		},
	}))
	made.Lock()
	defer made.Unlock()
	made.streams[v.(*checkpoint.Stream)] = struct{}{}
	return v.(*checkpoint.Stream)
}

// made are the coordinators of this process.
var made = struct {
	sync.Mutex
	streams map[*checkpoint.Stream]struct{}
}{streams: map[*checkpoint.Stream]struct{}{}}

// unfinished tells what the streams of this process leave to the next one, nil where nothing is left.
func unfinished() error {
	made.Lock()
	defer made.Unlock()
	var errs []error
	for s := range made.streams {
		if err := s.Unfinished(); err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", s, err))
		}
	}
	return errors.Join(errs...)
}

// ComponentKey names a component across restarts: its label, else its path in the config, such as "output.broker.outputs.0".
func ComponentKey(res *service.Resources) string {
	if l := res.Label(); l != "" {
		return l
	}
	return strings.Join(res.Path(), ".")
}

// Successive tells whether the component's key may stand for several, one after the other: the children of a sequence have
// one path.
func Successive(res *service.Resources) bool {
	return res.Label() == "" && slices.Contains(res.Path(), "sequence")
}
