package benthosx

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redpanda-data/benthos/v4/public/service"
	"gopkg.in/yaml.v3"
)

// A plugin sees only its own config. Whether a stream can be checkpointed is decided by what stands around it: a buffer
// acknowledges before anything is written, a batch without a period never ends, outputs that come and go cannot be
// found again at a recovery. So the whole config is looked at before a source with checkpoints starts: at the start by
// a callback of Benthos's; after a reload in the file that was read again; in streams mode by asking the process's own
// HTTP API. A source does not start where nobody can look.

// sight is what a process knows of the configs of its streams.
var sight struct {
	sync.Mutex
	// looked is set once somebody has looked at the main config, accepted where a host takes everything.
	looked, accepted bool
	main             view
	// file is the main config, where it can be read again.
	file *configFile
	// resources are the files given with -r, or patterns of such.
	resources []string
	// noAPI is set by --no-api.
	noAPI bool
	api   apiAccess
	// started is closed when Benthos has made the streams of its start; nil where nobody tells.
	started <-chan struct{}
}

// view is what a look at one stream's config has found.
type view struct {
	// sinks is how many kafka_flink_sink it has.
	sinks int
	// refused is why checkpoints could not hold what they promise, nil where nothing is in their way.
	refused error
	// missing are the resources that it names, and that nobody can look at.
	missing []string
}

func viewOf(root map[string]any) (v view, checkpointed bool) {
	t, refused := checkTopology(root)
	return view{sinks: t.sinks, refused: refused, missing: t.missing}, t.checkpointed
}

// errUnchecked is what a source says that does not know what stands around it.
var errUnchecked = errors.New("checkpoints need a look at the whole config, which this build does not take: a main of one's " +
	"own calls host.Main of cmd/connect/host, or host.CheckTopology in its CLIOptOnConfigParse")

// RequireTopology tells how many sinks stand in the source's stream, and refuses it where its checkpoints could not hold.
// incarnation counts how often its stream was built in this process.
func RequireTopology(ctx context.Context, res *service.Resources, incarnation int) (sinks int, err error) {
	sight.Lock()
	accepted, looked, v, file, api, resources := sight.accepted, sight.looked, sight.main, sight.file, sight.api, sight.resources
	started := sight.started
	sight.Unlock()
	switch {
	case accepted:
		return 0, nil
	case !looked:
		return 0, &TopologyError{errUnchecked}
	case res.StreamID() != "":
		awaitStart(ctx, started)
		v, err = api.look(ctx, res.StreamID(), resources)
	case incarnation > 1:
		v, err = file.look()
	}
	if err == nil {
		err = v.refused
	}
	if err != nil && ctx.Err() == nil {
		return 0, &TopologyError{err}
	}
	return v.sinks, err
}

// TopologyError says why a stream cannot be checkpointed, whichever of its sources has asked.
type TopologyError struct{ Err error }

func (e *TopologyError) Error() string { return e.Err.Error() }
func (e *TopologyError) Unwrap() error { return e.Err }

// AcceptTopology takes whatever is around a source, for a host that builds streams in code and knows better.
func AcceptTopology() {
	sight.Lock()
	defer sight.Unlock()
	sight.accepted = true
}

// CheckTopology looks at the whole config, and refuses one whose checkpoints could not hold what they promise. Its error
// names every place. Where no checkpointed source is in sight, as behind a template, what it found is kept for one that
// turns up.
func CheckTopology(conf *service.ParsedConfig) error {
	root, err := rootOf(conf.FieldAny)
	if err != nil {
		return err
	}
	sight.Lock()
	defer sight.Unlock()
	if err := addResources(root, sight.resources); err != nil {
		return err
	}
	v, checkpointed := viewOf(root)
	sight.looked, sight.main, sight.api = true, v, apiOf(conf)
	if sight.noAPI {
		sight.api.closed = "it was started with --no-api"
	}
	if checkpointed {
		return v.refused
	}
	return nil
}

// rootOf gathers the sections of a config that say what a stream is made of.
func rootOf(field func(path ...string) (any, error)) (map[string]any, error) {
	root := map[string]any{}
	for _, section := range append([]string{"input", "buffer", "pipeline", "output", cacheSection}, resourceSections...) {
		v, err := field(section)
		if err != nil {
			continue // not in the config
		}
		if err := checkTags(v, section); err != nil {
			return nil, err
		}
		if v, err = plain(v); err != nil {
			return nil, fmt.Errorf("reading %s: %w", section, err)
		}
		root[section] = v
	}
	return root, nil
}

// plain decodes what the parser has left as YAML.
func plain(v any) (out any, err error) {
	switch v := v.(type) {
	case *yaml.Node:
		err = v.Decode(&out)
		return out, err
	case []any:
		list := make([]any, len(v))
		for i := range v {
			if list[i], err = plain(v[i]); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for key := range v {
			if object[key], err = plain(v[key]); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	return v, nil
}
