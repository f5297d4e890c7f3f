package kafkaclient

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Side is who the client works for.
type Side uint8

// The sides. A property may be for both.
const (
	Source Side = 1 << iota
	Sink
)

func (s Side) String() string {
	switch s {
	case Source:
		return "source"
	case Sink:
		return "sink"
	}
	return "source, sink"
}

type kind uint8

const (
	wholeNumber kind = iota
	millis
	bytesOf
	oneOf
	text
)

// Property is one of Kafka's own client properties that has an effect here.
type Property struct {
	Name  string
	Sides Side
	kind  kind
	// least and most bound a number, options are what else there may be.
	least, most int64
	options     []string
	// Secret properties are never shown.
	Secret bool
	// Default is what holds without it, Effect what it does, both for people.
	Default, Effect string
}

// Takes says what values there are, for people.
func (p Property) Takes() string {
	between := fmt.Sprintf("%d to %d", p.least, p.most)
	switch p.kind {
	case wholeNumber:
		return between
	case millis:
		return between + " ms"
	case bytesOf:
		return between + " bytes"
	case oneOf:
		shown := slices.Clone(p.options)
		for i, o := range shown {
			if o == "" {
				shown[i] = "(empty)"
			}
		}
		return strings.Join(shown, ", ")
	}
	return "text"
}

// Properties are Kafka's own client properties, checked.
type Properties struct {
	values map[string]Secret // some are
}

// NewProperties checks each of the properties of one side by itself. Its errors name the property, the value, and what to
// write instead.
func NewProperties(side Side, given map[string]any) (Properties, []error) {
	p := Properties{values: map[string]Secret{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value, err := checkProperty(side, name, given[name])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p.values[name] = NewSecret(value)
	}
	return p, errs
}

// PropertyTable are the properties that have an effect, by name.
func PropertyTable() []Property { return slices.Clone(accepted) }

// RefusedProperties are those that are known and refused, with the reason.
func RefusedProperties() map[string]string {
	out := map[string]string{}
	for name, r := range refused {
		out[name] = r
	}
	return out
}

func lookup(name string) (Property, bool) {
	i := slices.IndexFunc(accepted, func(p Property) bool { return p.Name == name })
	if i < 0 {
		return Property{}, false
	}
	return accepted[i], true
}

func checkProperty(side Side, name string, value any) (string, error) {
	p, known := lookup(name)
	if !known {
		return "", unknownProperty(side, name)
	}
	fail := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("properties."+name+": "+format, args...)
	}
	if p.Sides&side == 0 {
		return fail("it is for a %s, and this is a %s; remove it", p.Sides, side)
	}
	shown, ok := scalar(value)
	if !ok {
		return fail("it has to be one value, and is a list or a map")
	}
	switch p.kind {
	case wholeNumber, millis, bytesOf:
		n, err := strconv.ParseInt(shown, 10, 64)
		if err != nil {
			what := "a whole number"
			switch p.kind {
			case millis:
				what += " of milliseconds, such as 500"
			case bytesOf:
				what += " of bytes, such as 65536"
			}
			return fail("%q is not %s", shown, what)
		}
		if n < p.least || n > p.most {
			return fail("%d is not between %d and %d", n, p.least, p.most)
		}
	case oneOf:
		for _, o := range p.options {
			if strings.EqualFold(o, shown) {
				return o, nil
			}
		}
		if reason := notTaken[name]; reason != "" {
			return fail("%q is not supported: %s", shown, reason)
		}
		return fail("%q is not one of %s", shown, p.Takes())
	}
	return shown, nil
}

// scalar is a YAML value as Kafka has it, where all are texts.
func scalar(value any) (string, bool) {
	switch v := value.(type) {
	case nil:
		return "", true
	case string:
		return strings.TrimSpace(v), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return strconv.FormatInt(int64(v), 10), true
		}
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case []any, map[string]any, map[string]string, []string:
		return "", false
	}
	return fmt.Sprint(value), true
}

// unknownProperty says why there is no such property here, and what there is instead.
func unknownProperty(side Side, name string) error {
	if reason, ok := refused[name]; ok {
		return fmt.Errorf("properties.%s: %s", name, reason)
	}
	for prefix, reason := range refusedPrefixes {
		if strings.HasPrefix(name, prefix) {
			return fmt.Errorf("properties.%s: %s", name, reason)
		}
	}
	return &UnknownPropertyError{Name: name, Near: nearest(side, name)}
}

// UnknownPropertyError says that there is no such property. Near is the one that was likely meant, empty for none.
type UnknownPropertyError struct{ Name, Near string }

func (e *UnknownPropertyError) Error() string {
	if e.Near != "" {
		return fmt.Sprintf("properties.%s: there is no such property; did you mean %s?", e.Name, e.Near)
	}
	return fmt.Sprintf("properties.%s: there is no such property; docs/connection.md lists all there are", e.Name)
}

// nearest is the property that a name was likely meant to be; empty for none.
func nearest(side Side, name string) string {
	name = strings.TrimPrefix(strings.ToLower(strings.NewReplacer("_", ".", "-", ".").Replace(name)), "properties.")
	best, least := "", 1+len(name)/4
	for _, p := range accepted {
		if d := distance(name, p.Name); p.Sides&side != 0 && d < least {
			best, least = p.Name, d
		}
	}
	for known := range refused {
		if d := distance(name, known); d < least || d == least && best > known {
			best, least = known, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Has tells whether a property is set.
func (p Properties) Has(name string) bool { _, ok := p.values[name]; return ok }

// Text is a property's value, empty where it is not set.
func (p Properties) Text(name string) string { return p.values[name].reveal() }

// Int is the value of a property that is a number, and whether it is set.
func (p Properties) Int(name string) (int64, bool) {
	n, err := strconv.ParseInt(p.Text(name), 10, 64)
	return n, err == nil
}

// Duration is the value of a property in milliseconds, and whether it is set.
func (p Properties) Duration(name string) (time.Duration, bool) {
	n, ok := p.Int(name)
	return time.Duration(n) * time.Millisecond, ok
}

// Bool is the value of a property that is true or false, and whether it is set.
func (p Properties) Bool(name string) (value, ok bool) { return p.Text(name) == "true", p.Has(name) }

// Together finds what contradicts itself among the properties of a client.
func (p Properties) Together() error {
	var errs []error
	atMost := func(less, more string) {
		a, haveA := p.Int(less)
		b, haveB := p.Int(more)
		if haveA && haveB && a > b {
			errs = append(errs, fmt.Errorf("properties.%s: %d is more than properties.%s, %d", less, a, more, b))
		}
	}
	atMost("retry.backoff.ms", "retry.backoff.max.ms")
	atMost("fetch.min.bytes", "fetch.max.bytes")
	atMost("max.request.size", "buffer.memory")
	idempotent, set := p.Bool("enable.idempotence")
	if n, ok := p.Int("max.in.flight.requests.per.connection"); ok && n > 5 && (idempotent || !set) {
		errs = append(errs, fmt.Errorf("properties.max.in.flight.requests.per.connection: %d is more than the 5 that an idempotent "+
			"producer may have; lower it, or set properties.enable.idempotence to false", n))
	}
	if n, ok := p.Int("retries"); ok && n == 0 && (idempotent || !set) {
		errs = append(errs, errors.New("properties.retries: 0 does not go with an idempotent producer, which tries again by "+
			"nature; remove it, or set properties.enable.idempotence to false"))
	}
	if acks := p.Text("acks"); (acks == "0" || acks == "1") && set && idempotent {
		errs = append(errs, fmt.Errorf("properties.acks: %s does not go with properties.enable.idempotence true, which needs all", acks))
	}
	return errors.Join(errs...)
}
