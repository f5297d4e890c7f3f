package benthosx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redpanda-data/benthos/v4/public/service"
	"gopkg.in/yaml.v3"
)

// Job is what a config says of its Kafka sources, for a command that looks at them and runs nothing.
type Job struct {
	Sources []Source
	// Caches are the cache resources, also those of files given with -r.
	Caches []Cache
}

// Source is one kafka_flink_source under input.
type Source struct {
	// Key is the name it has in logs and in its checkpoints, as ComponentKey makes it.
	Key    string
	Config map[string]any
}

// Cache is one cache resource.
type Cache struct {
	Label, Kind string
	Config      map[string]any
}

// errSeen ends a run that was only to read its config.
var errSeen = errors.New("the config was read")

// ReadJob reads a config as `run` does with these arguments, environment variables, -r and --set included, and refuses
// what `run` refuses before it starts anything.
func ReadJob(ctx context.Context, args []string, opts ...service.CLIOptFunc) (job Job, err error) {
	if args, err = applyEnvFiles(append([]string{"run"}, args...)); err != nil {
		return job, err
	}
	seen := false
	var refused error
	look := func(conf *service.ParsedConfig) error {
		seen = true
		if refused = CheckTopology(conf); refused != nil {
			return errSeen
		}
		job, refused = jobOf(conf)
		return errSeen
	}
	// No listener: the job may be running beside us. Its log would stand in the command's output.
	run := append([]string{"connect", "run", "--set", "http.enabled=false", "--log.level", "error"}, args[1:]...)
	_, err = service.RunCLIToCode(ctx, append(opts, service.CLIOptSetArgs(run...),
		service.CLIOptSetEnvVarLookup(lookUp), service.CLIOptOnConfigParse(look), service.CLIOptCustomRunFlags(nil, noteFile))...)
	switch {
	case seen:
		return job, refused
	case err == nil:
		return job, errors.New("reading the config: it was not read")
	}
	return job, err
}

func jobOf(conf *service.ParsedConfig) (job Job, err error) {
	root, err := rootOf(conf.FieldAny)
	if err != nil {
		return job, err
	}
	sight.Lock()
	resources := sight.resources
	sight.Unlock()
	if err := addResources(root, resources); err != nil {
		return job, err
	}
	t, _ := checkTopology(root)
	job.Sources = t.sources
	list, _ := root[cacheSection].([]any)
	for _, e := range list {
		object, _ := e.(map[string]any)
		c := Cache{}
		for key, v := range object {
			switch key {
			case "label":
				c.Label, _ = v.(string)
			default:
				c.Kind = key
				c.Config, _ = v.(map[string]any)
			}
		}
		job.Caches = append(job.Caches, c)
	}
	return job, nil
}

// noteSource notes the kafka_flink_source of an object, under the key that ComponentKey gives it when it is built.
func (t *topology) noteSource(object map[string]any, path []string) {
	config, is := object["kafka_flink_source"].(map[string]any)
	if !is || path[0] != "input" {
		return
	}
	key, _ := object["label"].(string)
	if key == "" {
		key = strings.Join(builtPath(path), ".")
	}
	first := key
	for n := 2; slices.ContainsFunc(t.sources, func(s Source) bool { return s.Key == key }); n++ {
		key = fmt.Sprintf("%s#%d", first, n) // as the coordinator does where Benthos gives several the same path
	}
	t.sources = append(t.sources, Source{Key: key, Config: config})
}

// builtPath is the path that Benthos gives the input at a path of the config: the children of a sequence have that of the
// sequence.
func builtPath(path []string) (out []string) {
	for i := 0; i < len(path); i++ {
		out = append(out, path[i])
		if path[i] == "sequence" && i+2 < len(path) && path[i+1] == "inputs" {
			i += 2
		}
	}
	return out
}

// ParseMap parses the config of a component that was taken out of a larger one.
func ParseMap(spec *service.ConfigSpec, config map[string]any) (*service.ParsedConfig, error) {
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	return spec.ParseYAML(string(text), nil)
}
