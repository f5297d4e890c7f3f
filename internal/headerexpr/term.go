package headerexpr

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// kind is what a term asks of a header's value.
type kind uint8

const (
	equals  kind = iota // key:value
	exists              // key
	pattern             // key~"regex"
	oneOf               // key in (a, b)
	compare             // key > 5
)

// term asks something of the headers of one key.
type term struct {
	key  string
	kind kind
	// value belongs to equals, values to oneOf, regex to pattern; comparison and number belong to compare.
	value      string
	values     []string
	regex      *regexp.Regexp
	comparison string
	number     number
}

// holds tells whether any header of the key has what the term asks for.
func holds[H ~struct {
	Key   string
	Value []byte
}](t *term, headers []H) bool {
	for i := range headers {
		h := Header(headers[i])
		if h.Key == t.key && t.accepts(h.Value) {
			return true
		}
	}
	return false
}

func (t *term) accepts(value []byte) bool {
	switch {
	case t.kind == exists:
		return true
	case value == nil:
		return false // null equals nothing
	}
	switch t.kind {
	case equals:
		return string(value) == t.value // the text is valid UTF-8, so a value that is not cannot equal it
	case oneOf:
		for _, v := range t.values {
			if string(value) == v {
				return true
			}
		}
		return false
	case pattern:
		return utf8.Valid(value) && t.regex.Match(value)
	case compare:
		n, ok := parseNumber(value)
		return ok && n.is(t.comparison, t.number)
	case exists:
	}
	return false
}

// number is exact where it is a whole number that fits.
type number struct {
	whole   int64
	isWhole bool
	float   float64
	text    string // as it was written, in terms
}

// longestNumber bounds the text of a number; what is longer is none.
const longestNumber = 64

// parseNumber reads a decimal number: digits with a sign, a fraction and an exponent. It allocates nothing, and takes
// neither hexadecimal numbers nor underscores, infinities and NaN, as strconv does.
func parseNumber(b []byte) (n number, ok bool) {
	if len(b) == 0 || len(b) > longestNumber || !isDecimal(b) {
		return n, false
	}
	text := unsafe.String(unsafe.SliceData(b), len(b)) // not kept, and not changed meanwhile
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number{whole: whole, isWhole: true, float: float64(whole)}, true
	}
	f, err := strconv.ParseFloat(text, 64)
	return number{float: f}, err == nil
}

// isDecimal also keeps from strconv what it would make an error of, which allocates.
func isDecimal(b []byte) bool {
	i := 0
	digits := func() bool {
		from := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		return i > from
	}
	sign := func() {
		if i < len(b) && (b[i] == '-' || b[i] == '+') {
			i++
		}
	}
	sign()
	ok := digits()
	if i < len(b) && b[i] == '.' {
		i++
		ok = digits() || ok
	}
	if ok && i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		sign()
		ok = digits()
	}
	return ok && i == len(b)
}

func (n number) is(comparison string, o number) bool {
	less, equal := n.float < o.float, n.float == o.float
	if n.isWhole && o.isWhole {
		less, equal = n.whole < o.whole, n.whole == o.whole
	}
	switch comparison {
	case "<":
		return less
	case "<=":
		return less || equal
	case ">":
		return !less && !equal
	case ">=":
		return !less
	case "==":
		return equal
	case "!=":
		return !equal
	}
	return false
}

// String is the term in the extended language.
func (t *term) String() string {
	key := quoteIfNeeded(t.key)
	switch t.kind {
	case equals:
		return key + ":" + quoteIfNeeded(t.value)
	case oneOf:
		list := make([]string, len(t.values))
		for i, v := range t.values {
			list[i] = quoteIfNeeded(v)
		}
		return fmt.Sprintf("%s in (%s)", key, strings.Join(list, ", "))
	case pattern:
		return key + "~" + `"` + strings.ReplaceAll(t.regex.String(), `"`, `\"`) + `"`
	case compare:
		return fmt.Sprintf("%s %s %s", key, t.comparison, t.number.text)
	case exists:
	}
	return key
}

var quoteEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quote writes a string so that the extended language reads it back.
func quote(s string) string { return `"` + quoteEscapes.Replace(s) + `"` }

func quoteIfNeeded(s string) string {
	if s == "" || s == "in" || strings.IndexFunc(s, func(r rune) bool { return isSpecial(r) || isBlank(r) || r == ':' }) >= 0 {
		return quote(s)
	}
	return s
}
