package benthosx

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
)

// Benthos does not lint durations, numbers and booleans, and a value that is none of these switches off all rules of the
// spec without a word. So such fields take any value here, and have a rule that says what they want.

// DurationField is a field for a duration of at least least. path is the field's place in the component's config.
func DurationField(path, name, least, description string) *service.ConfigField {
	return service.NewDurationField(name).Description(description).LintRule(fmt.Sprintf(`
let d = this.string().parse_duration().catch(null)
root = if $d == null {
  "%[1]s: %%v is not a duration, such as 500ms, 5s or 10m".format(this.string().quote())
} else if $d < %[2]q.parse_duration() {
  "%[1]s: %%v is less than %[2]s, the least there is".format(this.string())
}`, path, least))
}

// IntField is a field for a whole number of at least least, with a default.
func IntField(path, name string, value, least int, description string) *service.ConfigField {
	return OptionalIntField(path, name, least, description).Default(value)
}

// OptionalIntField is a field for a whole number of at least least, which a rule can tell to be absent.
func OptionalIntField(path, name string, least int, description string) *service.ConfigField {
	return service.NewAnyField(name).Description(description).Optional().LintRule(fmt.Sprintf(`
let n = if this.type() == "number" { this.number() } else { null }
root = if $n == null || $n != $n.floor() {
  "%[1]s: %%v is not a whole number".format(this.string().quote())
} else if $n < %[2]d {
  "%[1]s: %%v is less than %[2]d, the least there is".format($n)
} else if $n > %[3]d {
  "%[1]s: %%v is more than %[3]d, the most there is".format(this.string())
}`, path, least, math.MaxInt32))
}

// BoolField is a field for true or false, with a default.
func BoolField(path, name string, value bool, description string) *service.ConfigField {
	return OptionalBoolField(path, name, description).Default(value)
}

// OptionalBoolField is a field for true or false, which a rule can tell to be absent.
func OptionalBoolField(path, name, description string) *service.ConfigField {
	return service.NewAnyField(name).Description(description).Optional().LintRule(fmt.Sprintf(`
root = if this.type() != "bool" {
  "%[1]s: %%v is neither true nor false".format(this.string().quote())
}`, path))
}

// EnumField is a field for one of several words, whose case does not matter. The options are explained.
func EnumField(path, name string, options map[string]string) *service.ConfigField {
	words := slices.Sorted(maps.Keys(options))
	for i, w := range words {
		words[i] = fmt.Sprintf("%q", w)
	}
	return service.NewStringAnnotatedEnumField(name, options).LintRule(fmt.Sprintf(`
let options = [ %[2]s ]
let given = this.string().lowercase().replace_all("_", "-")
let near = if $given == "" { [] } else {
  $options.filter(o -> o.replace_all("_", "-").has_prefix($given) || $given.has_prefix(o.replace_all("_", "-")))
}
root = if !$options.contains(this.string().lowercase()) {
  "%[1]s: %%v is not one of %%v%%v".format(this.string().quote(), $options.join(", "), if $near.length() == 1 { "; did you mean " + $near.index(0) + "?" } else { "" })
}`, path, strings.Join(words, ", ")))
}

// Parser reads the fields of a config and collects their errors, so that one start-up names them all.
type Parser struct {
	Conf *service.ParsedConfig
	Errs []error
}

// Join adds an error, if it is one.
func (p *Parser) Join(err error) {
	if err != nil {
		p.Errs = append(p.Errs, err)
	}
}

// Fail adds an error about the field at path.
func (p *Parser) Fail(path []string, format string, args ...any) {
	p.Join(fmt.Errorf("%s: %s", strings.Join(path, "."), fmt.Sprintf(format, args...)))
}

// String reads a string.
func (p *Parser) String(path ...string) string {
	s, err := p.Conf.FieldString(path...)
	p.Join(err)
	return s
}

// Enum reads a string whose case does not matter, as Benthos's lint of such fields has it.
func (p *Parser) Enum(path ...string) string { return strings.ToLower(p.String(path...)) }

// List reads a list of strings.
func (p *Parser) List(path ...string) []string {
	l, err := p.Conf.FieldStringList(path...)
	p.Join(err)
	return l
}

// Duration reads a DurationField.
func (p *Parser) Duration(least time.Duration, path ...string) time.Duration {
	s := p.String(path...)
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		p.Fail(path, "%q is not a duration, such as 500ms, 5s or 10m", s)
	case d < least:
		p.Fail(path, "%v is less than %v, the least there is", d, least)
	}
	return d
}

// Int reads an IntField.
func (p *Parser) Int(least int, path ...string) int {
	n, err := p.Conf.FieldInt(path...)
	switch {
	case err != nil:
		v, _ := p.Conf.FieldAny(path...)
		p.Fail(path, "%v is not a whole number", v)
	case n < least:
		p.Fail(path, "%d is less than %d, the least there is", n, least)
	case n > math.MaxInt32:
		p.Fail(path, "%d is more than %d, the most there is", n, math.MaxInt32)
	}
	return n
}

// Bool reads a BoolField.
func (p *Parser) Bool(path ...string) bool {
	b, err := p.Conf.FieldBool(path...)
	if err != nil {
		v, _ := p.Conf.FieldAny(path...)
		p.Fail(path, "%v is neither true nor false", v)
	}
	return b
}
