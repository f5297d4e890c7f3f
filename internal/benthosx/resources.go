package benthosx

import (
	"fmt"
	"os"
	"slices"

	"github.com/redpanda-data/benthos/v4/public/service"
)

// A stream consists also of the resources that it names. They stand in its own file, or in files given with -r, which
// Benthos's callback does not show.

// resourceSections are where resources stand in a config.
var resourceSections = []string{"input_resources", "processor_resources", "output_resources"}

// cacheSection is where caches stand, which are no part of a stream.
const cacheSection = "cache_resources"

// resource is one of them.
type resource struct {
	section, label string
	config         map[string]any
}

func resourcesOf(root map[string]any) (all []resource) {
	for _, section := range resourceSections {
		list, _ := root[section].([]any)
		for _, e := range list {
			config, _ := e.(map[string]any)
			label, _ := config["label"].(string)
			all = append(all, resource{section, label, config})
		}
	}
	return all
}

// follow goes on with the resources that an object names, if it names any: as a component of its own, or as branches of
// a workflow.
func (t *topology) follow(object map[string]any) {
	var labels []string
	if label, ok := object["resource"].(string); ok && isReference(object) {
		labels = append(labels, label)
	}
	branches, _ := object["branch_resources"].([]any)
	for _, b := range branches {
		if label, ok := b.(string); ok {
			labels = append(labels, label)
		}
	}
	for _, label := range labels {
		t.visit(label)
	}
}

// isReference tells a component that is a resource from something else that has a field of that name.
func isReference(object map[string]any) bool {
	for key := range object {
		if !slices.Contains([]string{"resource", "label", "processors"}, key) {
			return false
		}
	}
	return true
}

func (t *topology) visit(label string) {
	if t.visited[label] {
		return
	}
	t.visited[label] = true
	found := false
	for _, r := range t.resources {
		if r.label == label {
			found = true
			t.walk(r.config, []string{r.section, label})
		}
	}
	if !found {
		t.missing = append(t.missing, label)
	}
}

// addResources adds to a config the resources that stand in files given with -r.
func addResources(root map[string]any, patterns []string) error {
	paths, err := service.Globs(service.OSFS(), patterns...)
	if err != nil {
		return fmt.Errorf("looking for the files given with -r: %w", err)
	}
	for _, path := range paths {
		more, err := readConfig(path)
		if err != nil {
			return err
		}
		for _, section := range append([]string{cacheSection}, resourceSections...) {
			have, _ := root[section].([]any)
			add, _ := more[section].([]any)
			if len(add) > 0 {
				root[section] = append(slices.Clone(have), add...)
			}
		}
	}
	return nil
}

// readConfig reads the sections of a config file that say what a stream is made of.
func readConfig(path string) (map[string]any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the config again: %w", err)
	}
	conf, err := service.GlobalEnvironment().FullConfigSchema("", "").NewConfigQuerier().ParseYAML(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading the config %s again: %w", path, err)
	}
	root, err := rootOf(func(path ...string) (any, error) {
		field, err := conf.FieldAtPath(path...)
		if err != nil {
			return nil, err
		}
		return field.FieldAny()
	})
	if err != nil {
		return nil, fmt.Errorf("reading the config %s again: %w", path, err)
	}
	return root, nil
}
