package benthosx

import (
	"errors"
	"fmt"
	"strings"

	"github.com/Jeffail/gabs/v2"
	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"
)

// configFile is the main config as the command line names it. Benthos reads it again at a reload (-w) and tells nobody.
type configFile struct {
	path string
	sets []string // of --set: a path, "=", a value
	// resources are of -r: files, or patterns of such.
	resources []string
}

// errReloaded is what a source says after a reload whose file is not known.
var errReloaded = errors.New("the config was reloaded (-w), and what stands around a checkpointed source now cannot be " +
	"checked, since the file's name is not known: name it on the command line, as in `connect run -w job.yaml`")

// noteFile notes the file that a command runs. It comes before Benthos reads it.
func noteFile(c *cli.Context) error {
	noteLints(c)
	if err := checkSecrets(c); err != nil {
		return err
	}
	path := c.String("config")
	if c.Command.Name == "run" && c.Args().Present() {
		path = c.Args().First()
	}
	sight.Lock()
	defer sight.Unlock()
	sight.resources, sight.noAPI = c.StringSlice("resources"), c.Bool("no-api")
	if sight.file = nil; path != "" {
		sight.file = &configFile{path: path, sets: c.StringSlice("set"), resources: sight.resources}
	}
	return nil
}

// look reads the file as it is now. One that has changed again since Benthos read it is about to be reloaded again.
func (f *configFile) look() (view, error) {
	if f == nil {
		return view{}, errReloaded
	}
	root, err := readConfig(f.path)
	if err != nil {
		return view{}, fmt.Errorf("after a reload: %w", err)
	}
	for _, set := range f.sets {
		path, text, _ := strings.Cut(set, "=")
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			value = text
		}
		if _, err := gabs.Wrap(root).SetP(value, path); err != nil {
			return view{}, fmt.Errorf("applying --set %s after a reload: %w", path, err)
		}
	}
	if err := addResources(root, f.resources); err != nil {
		return view{}, fmt.Errorf("after a reload: %w", err)
	}
	v, _ := viewOf(root)
	return v, nil
}
