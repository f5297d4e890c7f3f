package headerexpr

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The slow evaluator knows nothing of the parser: an expression is made together with a function that decides, and the
// text of it is written with blanks, escapes, quotes and parentheses that must not matter.

type decide func([]Header) bool

// random makes expressions and headers out of few keys and values, so that they meet.
type random struct{ *rand.Rand }

var (
	someKeys   = []string{"a", "b", "key c", "d:d", "é", "(e)", "in", "f!"}
	someValues = []string{"", "x", "y z", "1", "2.0", "1e1", "a:b", "a&b|c", `\`, "!", `"q"`, "'", "ü", "(1)", " ", "\uFFFD", "-7", "in"}
)

func (r random) pick(from []string) string { return from[r.IntN(len(from))] }

func (r random) headers() []Header {
	out := make([]Header, r.IntN(5))
	for i := range out {
		out[i] = Header{Key: r.pick(someKeys), Value: []byte(r.pick(someValues))}
		switch r.IntN(8) {
		case 0:
			out[i].Value = nil
		case 1:
			out[i].Value = []byte("\xff" + r.pick(someValues))
		}
	}
	return out
}

// valuesOf are the non-null values of a key.
func valuesOf(headers []Header, key string) (out []string) {
	for _, h := range headers {
		if h.Key == key && h.Value != nil {
			out = append(out, string(h.Value))
		}
	}
	return out
}

func hasValue(key, value string) decide {
	return func(headers []Header) bool { return slices.Contains(valuesOf(headers, key), value) }
}

func not(d decide) decide { return func(h []Header) bool { return !d(h) } }

// blanks are written where they mean nothing.
func (r random) blanks() string { return strings.Repeat(" ", max(0, r.IntN(4)-2)) }

// escaped writes a text with backslashes before what needs one, and before some of what does not.
func (r random) escaped(text string, needed string) string {
	var b strings.Builder
	runes := []rune(text)
	for i, c := range runes {
		edge := c == ' ' && (i == 0 || i == len(runes)-1)
		if edge || strings.ContainsRune(needed, c) || strings.ContainsRune(escapable, c) && r.IntN(4) == 0 {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

func (r random) vvr() (string, decide) {
	var text strings.Builder
	var result decide
	for i := range 1 + r.IntN(6) {
		key, value := r.pick(someKeys), r.pick(someValues)
		term := hasValue(key, value)
		op := byte('|')
		if r.IntN(2) == 0 {
			op = '&'
		}
		if i > 0 {
			text.WriteByte(op)
		}
		text.WriteString(r.blanks())
		for range r.IntN(3) {
			text.WriteString("!" + r.blanks())
			term = not(term)
		}
		fmt.Fprintf(&text, "%s%s:%s%s%s", r.escaped(key, `:&|!\()`), r.blanks(), r.blanks(), r.escaped(value, `&|!\()`), r.blanks())
		left := result
		switch {
		case i == 0:
			result = term
		case op == '&':
			result = func(h []Header) bool { return left(h) && term(h) }
		default:
			result = func(h []Header) bool { return left(h) || term(h) }
		}
	}
	return text.String(), result
}

// word writes a text of the extended language, bare or quoted.
func (r random) word(text string) string {
	if text == "" || text == "in" || r.IntN(2) == 0 {
		quote := []string{`"`, `'`}[r.IntN(2)]
		return quote + strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), quote, `\`+quote) + quote
	}
	return r.escaped(text, `:&|!()"'~,<>=\ `)
}

func (r random) term() (string, decide) {
	key := r.pick(someKeys)
	name := r.word(key)
	switch r.IntN(5) {
	case 0:
		return name, func(h []Header) bool { return slices.ContainsFunc(h, func(h Header) bool { return h.Key == key }) }
	case 1:
		list := []string{r.pick(someValues), r.pick(someValues)}
		return fmt.Sprintf("%s in%s(%s, %s)", name, r.blanks(), r.word(list[0]), r.word(list[1])), func(h []Header) bool {
			return slices.ContainsFunc(valuesOf(h, key), func(v string) bool { return slices.Contains(list, v) })
		}
	case 2:
		return name + r.blanks() + `~"^[0-9]"`, func(h []Header) bool {
			return slices.ContainsFunc(valuesOf(h, key), func(v string) bool {
				return utf8.ValidString(v) && v != "" && v[0] >= '0' && v[0] <= '9'
			})
		}
	case 3:
		op, than := r.pick([]string{"<", "<=", ">", ">=", "==", "!="}), float64(r.IntN(4)-1)
		return fmt.Sprintf("%s%s%s%s%v", name, r.blanks(), op, r.blanks(), than), func(h []Header) bool {
			return slices.ContainsFunc(valuesOf(h, key), func(v string) bool {
				f, err := strconv.ParseFloat(v, 64)
				if err != nil {
					return false
				}
				return map[string]bool{"<": f < than, "<=": f <= than, ">": f > than, ">=": f >= than, "==": f == than, "!=": f != than}[op]
			})
		}
	}
	value := r.pick(someValues)
	return name + r.blanks() + ":" + r.blanks() + r.word(value), hasValue(key, value)
}

// extended makes a tree, and writes parentheses where the precedence needs them, and sometimes where it does not. level
// is 0 for an operand of |, 1 for one of &, 2 for one of !.
func (r random) extended(depth, level int) (string, decide) {
	if depth == 0 || r.IntN(3) == 0 {
		return r.term()
	}
	var text string
	var result decide
	own := r.IntN(3)
	if own == 2 {
		inner, d := r.extended(depth-1, 2)
		return "!" + r.blanks() + inner, not(d)
	}
	op := []string{"|", "&"}[own]
	for i := range 2 + r.IntN(2) {
		inner, d := r.extended(depth-1, own+1)
		left := result
		switch {
		case i == 0:
			text, result = inner, d
			continue
		case op == "&":
			result = func(h []Header) bool { return left(h) && d(h) }
		default:
			result = func(h []Header) bool { return left(h) || d(h) }
		}
		text += " " + op + r.blanks() + inner
	}
	if level > own || r.IntN(4) == 0 {
		text = "(" + r.blanks() + text + r.blanks() + ")"
	}
	return text, result
}

const randomExpressions = 100_000

func TestRandomExpressionsDecideAsASlowEvaluatorDoes(t *testing.T) {
	for language, expression := range map[Language]func(random) (string, decide){
		VVR:      random.vvr,
		Extended: func(r random) (string, decide) { return r.extended(3, 0) },
	} {
		t.Run(string(language), func(t *testing.T) {
			t.Parallel()
			r := random{rand.New(rand.NewPCG(20260101, 7))}
			kept := 0
			for i := range randomExpressions {
				text, slow := expression(r)
				e, err := Parse(text, language)
				require.NoError(t, err, text)
				again := e
				if i%10 == 0 {
					again, err = Parse(e.String(), Extended)
					require.NoError(t, err, "%q written as %q", text, e.String())
				}
				headers := r.headers()
				want := slow(headers)
				if want {
					kept++
				}
				if Match(e, headers) != want || Match(again, headers) != want || Explain(e, headers).Matches != want {
					t.Fatalf("%q on %q: want %v, got %v, as %q %v, explained %v", text, headers, want,
						Match(e, headers), e, Match(again, headers), Explain(e, headers))
				}
			}
			require.Greater(t, kept, randomExpressions/10, "it is no test where nothing is kept")
			require.Less(t, kept, randomExpressions*9/10)
		})
	}
}

// FuzzParse: no input panics; what is an expression is one too as it is written back, and decides the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "a:1", "depart:toy|depart:book&!env:test", `a\:b:c`, "(a|b)&!c:1", `a~"x"`, "a in (1, 2)", "a>=5", `"a":"\""`, "a:\xff"} {
		f.Add(seed, "a", []byte("1"))
	}
	f.Fuzz(func(t *testing.T, text, key string, value []byte) {
		headers := []Header{{key, value}, {"a", []byte("1")}, {"b", nil}}
		for _, language := range Languages {
			e, err := Parse(text, language)
			if err != nil {
				_ = err.Error()
				continue
			}
			got := Match(e, headers)
			if x := Explain(e, headers); x.Matches != got {
				t.Fatalf("%s: %q is %v, explained as %v", language, text, got, x)
			}
			_, _ = e.Tree(), Warning(e)
			again, err := Parse(e.String(), Extended)
			if err != nil {
				t.Fatalf("%s: %q is written as %q: %v", language, text, e, err)
			}
			if Match(again, headers) != got {
				t.Fatalf("%s: %q is %v, and as %q %v", language, text, got, e, !got)
			}
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	headers := make([]Header, 10)
	for i := range headers {
		headers[i] = Header{fmt.Sprint("key-", i), []byte(fmt.Sprint("value-", i))}
	}
	for _, terms := range []int{1, 5, 50} {
		for language, term := range map[Language]string{VVR: "key-%d:value-%d", Extended: `(key-%d:value-%d & !x & key-%[1]d~"^v" & !key-%[1]d > 5)`} {
			list := make([]string, terms)
			for i := range list {
				list[i] = fmt.Sprintf(term, i%10, (i+1)%10) // none holds, so that all are looked at
			}
			e, err := Parse(strings.Join(list, "|"), language)
			require.NoError(b, err)
			b.Run(fmt.Sprintf("%s/%d", language, terms), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if Match(e, headers) {
						b.Fatal("none holds")
					}
				}
			})
		}
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	headers := h("a=1 b=2 c=x")
	for language, text := range map[Language]string{
		VVR: "a:2|b:3&!c:y", Extended: `a > 5 | b in (7, 8) | c~"^z+$" | a < 0 & !d | c == 3 | b > 1.5`,
	} {
		e, err := Parse(text, language)
		require.NoError(t, err)
		require.Zero(t, testing.AllocsPerRun(100, func() { Match(e, headers) }), text)
	}
}
