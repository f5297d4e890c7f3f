package headerexpr

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// h reads headers as tests write them: "a=1 a=2 n=<null> e= bad=\xff".
func h(text string) []Header {
	var out []Header
	for field := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(field, "=")
		header := Header{Key: key, Value: []byte(value)}
		if value == "<null>" {
			header.Value = nil
		}
		out = append(out, header)
	}
	return out
}

func TestVVRDecides(t *testing.T) {
	for _, tc := range []struct {
		expression, headers string
		want                bool
	}{
		// The documented example: left to right, so it is (toy or book) and not test.
		{"depart:toy|depart:book&!env:test", "depart=toy", true},
		{"depart:toy|depart:book&!env:test", "depart=book", true},
		{"depart:toy|depart:book&!env:test", "depart=toy env=prod", true},
		{"depart:toy|depart:book&!env:test", "depart=toy env=test", false},
		{"depart:toy|depart:book&!env:test", "depart=book env=test", false},
		{"depart:toy|depart:book&!env:test", "depart=shoe", false},
		{"depart:toy|depart:book&!env:test", "env=prod", false},
		{"depart:toy|depart:book&!env:test", "", false},
		// One condition: a header of that key with that value is contained.
		{"a:1", "a=1", true},
		{"a:1", "a=2", false},
		{"a:1", "b=1", false},
		{"a:1", "A=1", false}, // keys and values are compared as they are
		{"a:x", "a=X", false},
		{"a:1", "a=11", false},
		{"a:1", "x=0 a=1 y=2", true},
		{"a:1", "", false},
		// Not.
		{"!a:1", "a=2", true},
		{"!a:1", "a=1", false},
		{"!a:1", "", true}, // a missing header makes the negation true
		{"!!a:1", "a=1", true},
		{"!!!a:1", "a=1", false},
		{"! a:1", "a=2", true},
		// And, or, and their order.
		{"a:1&b:2", "a=1 b=2", true},
		{"a:1&b:2", "a=1", false},
		{"a:1&b:2", "b=2", false},
		{"a:1|b:2", "a=1", true},
		{"a:1|b:2", "b=2", true},
		{"a:1|b:2", "c=3", false},
		{"a:1|b:2&c:3", "a=1", false}, // with precedence it would be kept
		{"a:1|b:2&c:3", "a=1 c=3", true},
		{"a:1|b:2&c:3", "b=2 c=3", true},
		{"a:1|b:2&c:3", "c=3", false},
		{"a:1&b:2|c:3", "c=3", true},
		{"a:1&b:2|c:3", "a=1 b=2", true},
		{"a:1&b:2|c:3", "a=1", false},
		{"a:1|b:2&c:3|d:4", "d=4", true},
		{"a:1|b:2&c:3|d:4&e:5", "d=4", false},
		{"a:1|b:2&c:3|d:4&e:5", "a=1 c=3 e=5", true},
		{"a:1&!b:2&!c:3", "a=1", true},
		{"a:1&!b:2&!c:3", "a=1 c=3", false},
		{"a:1|!b:2", "", true},
		{"a:1|!b:2", "b=2", false},
		{"!a:1&!b:2", "", true},
		{"!a:1|!b:2", "a=1", true},
		{"!a:1|!b:2", "a=1 b=2", false},
		// A key that is there several times matches if any of its headers does.
		{"a:1", "a=2 a=1", true},
		{"a:1", "a=1 a=2", true},
		{"!a:1", "a=2 a=1", false},
		{"a:1&a:2", "a=1 a=2", true},
		{"a:1&!a:2", "a=1 a=2", false},
		// Null, empty, and what is no UTF-8.
		{"a:", "a=", true},
		{"a:", "a=<null>", false},
		{"a:", "", false},
		{"a:", "a=x", false},
		{"a:1", "a=<null>", false},
		{"!a:1", "a=<null>", true},
		{"!a:", "a=<null>", true},
		{"a:1", "a=<null> a=1", true},
		{"a:null", "a=<null>", false},
		{"a:x", "a=\xff", false},
		{"!a:x", "a=\xff", true},
		{"a:\uFFFD", "a=\xff", false}, // what is no UTF-8 equals nothing, also not what it is shown as
		{"a:\uFFFD", "a=\uFFFD", true},
		{"a:grün", "a=grün", true},
		{"a:gru\u0308n", "a=grün", false}, // no normalisation
		{"ключ:значение", "ключ=значение", true},
		// The first colon splits; a backslash makes ordinary characters.
		{"url:http://x", "url=http://x", true},
		{"a:b:c", "a=b:c", true},
		{`a\:b:c`, "a:b=c", true},
		{`a:b\&c`, "a=b&c", true},
		{`a:b\|c`, "a=b|c", true},
		{`a:\!b`, "a=!b", true},
		{`\!a:b`, "!a=b", true},
		{`a:b\\c`, `a=b\c`, true},
		{`a:\(b\)`, "a=(b)", true},
		// Blanks around keys, values and operators mean nothing.
		{" a : 1 | b:2 ", "a=1", true},
		{"a:1\n& b:2", "a=1 b=2", true},
		{"a: ", "a=", true},
		// No expression keeps everything.
		{"", "", true},
		{"", "a=1", true},
		{" \t\n", "a=1", true},
	} {
		e, err := Parse(tc.expression, VVR)
		require.NoError(t, err, tc.expression)
		require.Equal(t, tc.want, Match(e, h(tc.headers)), "%q on %q", tc.expression, tc.headers)
	}
}

func TestBlanksWithinCountAndEscapedOnesAtTheEdgesToo(t *testing.T) {
	for expression, want := range map[string]Header{
		"my key : my value ": {"my key", []byte("my value")},
		`\ a:b\ `:            {" a", []byte("b ")},
		`a:\ `:               {"a", []byte(" ")},
		"a:b\tc":             {"a", []byte("b\tc")},
	} {
		e, err := Parse(expression, VVR)
		require.NoError(t, err)
		require.True(t, Match(e, []Header{want}), expression)
		require.False(t, Match(e, []Header{{want.Key, append(want.Value, ' ')}}), expression)
	}
}

func TestExtendedDecides(t *testing.T) {
	for _, tc := range []struct {
		expression, headers string
		want                bool
	}{
		// ! before & before |.
		{"a:1 | b:2 & c:3", "a=1", true},
		{"a:1 | b:2 & c:3", "b=2", false},
		{"(a:1 | b:2) & c:3", "a=1", false},
		{"(a:1 | b:2) & c:3", "a=1 c=3", true},
		{"!a:1 & b:2", "b=2", true},
		{"!(a:1 & b:2)", "a=1", true},
		{"!(a:1 & b:2)", "a=1 b=2", false},
		{"!!(a:1)", "a=1", true},
		{"((a:1))", "a=1", true},
		{"a:1&b:2|c:3&d:4", "c=3 d=4", true},
		{"a:1&b:2|c:3&d:4", "b=2 c=3", false},
		// Existence.
		{"a", "a=1", true},
		{"a", "a=<null>", true},
		{"a", "b=1", false},
		{"!a", "b=1", true},
		{"a & !b", "a=", true},
		{"in", "in=1", true},
		{"in:1", "in=1", true},
		// Quotes.
		{`"my-key":"v"`, "my-key=v", true},
		{`'a':'"'`, `a="`, true},
		{`a:"b\"c"`, `a=b"c`, true},
		{`a:"b\\c"`, `a=b\c`, true},
		{`"(a)":"b&c"`, "(a)=b&c", true},
		{`a:""`, "a=", true},
		{`a:`, "a=", true},
		{`a: & b:1`, "a= b=1", true},
		{`a:""`, "a=<null>", false},
		{`a\:b:c`, "a:b=c", true},
		{`url:http://x`, "url=http://x", true},
		// Regular expressions match anywhere in the value.
		{`a~"^v[0-9]+$"`, "a=v12", true},
		{`a~"^v[0-9]+$"`, "a=v", false},
		{`a~"[0-9]"`, "a=x1y", true},
		{`a~"\d"`, "a=1", true},
		{`a~"\\"`, `a=\`, true},
		{`a~"."`, "a=<null>", false},
		{`a~"."`, "a=\xff", false}, // what is no UTF-8 matches nothing
		{`a~""`, "a=", true},
		{`!a~"x"`, "", true},
		{`a~'"'`, `a="`, true},
		{`a~"\""`, `a="`, true},
		// Lists.
		{"a in (1, 2)", "a=2", true},
		{"a in (1, 2)", "a=3", false},
		{"a in(1)", "a=1", true},
		{`a in ("x,y", z)`, "a=x,y", true},
		{"!a in (1, 2)", "a=3", true},
		{"a in (1, 2)", "a=3 a=1", true},
		{"a in (1)", "a=<null>", false},
		{`"in" in (1)`, "in=1", true},
		// Numbers.
		{"a > 5", "a=6", true},
		{"a > 5", "a=5", false},
		{"a>=5", "a=5.0", true},
		{"a < -1", "a=-1.5", true},
		{"a <= 1e3", "a=1000", true},
		{"a == 5", "a=05", true},
		{"a == 5", "a=5.0", true},
		{"a == 5", "a=+5", true},
		{"a != 5", "a=6", true},
		{"a!=5", "a=5", false},
		{"a != 5", "a=x", false}, // what is no number compares with none
		{"a != 5", "", false},
		{"a > 5", "a=", false},
		{"a > 5", "a=<null>", false},
		{"a > 5", "a=1 a=9", true},
		{"a > 0", "a=0x10", false},
		{"a > 0", "a=Inf", false},
		{"a > 0", "a=1_000", false},
		{"a > 9007199254740992", "a=9007199254740993", true}, // whole numbers are exact
		{"a == .5", "a=0.5", true},
		{"a > 0", "a=" + strings.Repeat("9", 65), false}, // longer than any number
		{"a > 0", "a=1e999", false},
		// None.
		{"", "a=1", true},
		{"  ", "", true},
	} {
		e, err := Parse(tc.expression, Extended)
		require.NoError(t, err, tc.expression)
		require.Equal(t, tc.want, Match(e, h(tc.headers)), "%q on %q", tc.expression, tc.headers)
	}
}

func TestErrorsShowThePlaceAndTheWayOut(t *testing.T) {
	for _, tc := range []struct {
		expression string
		language   Language
		column     int
		text       string
	}{
		{"(a:1|b:2)&c:3", VVR, 1, "language vvr has no parentheses: it is evaluated from left to right; set language: extended"},
		{"a:1&(b:2", VVR, 5, "has no parentheses"},
		{"a:f(x)", VVR, 4, `or write \( where it is part of a key or value`},
		{"a", VVR, 1, `the term "a" has no colon between a key and a value; write key:value; whether a header is there at all can be asked in language: extended`},
		{"a:1|b", VVR, 5, `the term "b" has no colon`},
		{"a&b:1", VVR, 1, `the term "a" has no colon`},
		{":1", VVR, 1, "the term has no key before its colon"},
		{"a:1|", VVR, 5, "the expression ends where a term is expected"},
		{"a:1||b:2", VVR, 5, `'|' stands where a term is expected`},
		{"a:1 and b:2&", VVR, 13, "the expression ends where a term is expected"},
		{"&a:1", VVR, 1, `'&' stands where a term is expected`},
		{"!", VVR, 2, "the expression ends where a term is expected"},
		{"a:1!b:2", VVR, 4, "a ! stands inside a term"},
		{"a:hello!", VVR, 8, `write \! where it is part of a key or value`},
		{`a:b\n`, VVR, 4, `\n is not an escape`},
		{`a:b\`, VVR, 4, "a backslash has nothing behind it"},
		{"ä:ö|ü:(", VVR, 7, "has no parentheses"}, // columns are characters, not bytes
		{"a:\xff", VVR, 3, "the expression is not valid UTF-8: byte 0xff"},
		{"(a:1", Extended, 1, "this parenthesis is not closed"},
		{"(a:1 b:2)", Extended, 6, "an operator or ) is expected, not 'b'"},
		{"a:1)", Extended, 4, "a parenthesis is closed that was not opened"},
		{"a:1 b:2", Extended, 5, `an operator is expected, not 'b'; join terms by & or |; a text with blanks is quoted, "like this"`},
		{"a:1 && b:2", Extended, 5, "&& is not an operator; write a single one"},
		{"a:1 || b:2", Extended, 5, "|| is not an operator"},
		{"a:1 &", Extended, 6, "the expression ends where a term is expected"},
		{"& a", Extended, 1, "a term is expected, not '&'"},
		{"()", Extended, 2, "a term is expected, not ')'"},
		{`a:"x`, Extended, 3, "this quote is not closed"},
		{`a:"x\`, Extended, 3, "this quote is not closed"},
		{`a:"\n"`, Extended, 4, `\n is not an escape within quotes`},
		{`a~x`, Extended, 3, `a regular expression in quotes is expected behind ~; write key~"..."`},
		{`a~"("`, Extended, 3, "missing closing )"},
		{`a~"(?=x)"`, Extended, 3, "regular expressions are RE2"},
		{"a > x", Extended, 5, `"x" is not a number`},
		{"a = 5", Extended, 3, "= is not an operator; write == for numbers, and key:value for text"},
		{"a >", Extended, 4, "the expression ends where a number is expected"},
		{"a in 1", Extended, 6, "a list in parentheses is expected behind in"},
		{"a in ()", Extended, 7, "a value is expected, not ')'"},
		{"a in (1", Extended, 6, "this parenthesis is not closed"},
		{"a in (1 2)", Extended, 9, "a comma or ) is expected in a list, not '2'"},
		{"a in (1,)", Extended, 9, "a value is expected"},
		{strings.Repeat("(", 300) + "a", Extended, 201, "parentheses nest deeper than 200"},
	} {
		_, err := Parse(tc.expression, tc.language)
		var syntax *SyntaxError
		require.ErrorAs(t, err, &syntax, tc.expression)
		require.Equal(t, tc.column, syntax.Column, "%q: %v", tc.expression, err)
		require.Contains(t, err.Error(), tc.text, tc.expression)
		lines := strings.Split(err.Error(), "\n")
		require.Len(t, lines, 3)
		require.True(t, strings.HasSuffix(lines[2], "^"))
		caret := len([]rune(lines[2])) - 1 - len("  ")
		if shown := []rune(strings.TrimPrefix(lines[1], "  ")); tc.column <= len([]rune(tc.expression)) && tc.column < 40 {
			require.Equal(t, []rune(tc.expression)[tc.column-1], shown[caret], "the caret stands below the character: %v", err)
		}
	}
	_, err := Parse("a:1", "sql")
	require.ErrorContains(t, err, `"sql" is not a language of header filters; it is vvr or extended`)
	_, err = Parse(strings.Repeat("a", 1<<20+1), VVR)
	require.ErrorContains(t, err, "more than the 1048576 there may be")
}

func TestErrorInALongExpressionShowsItsSurroundings(t *testing.T) {
	_, err := Parse(strings.Repeat("a:1|", 1000)+"(b:2)"+strings.Repeat("|c:3", 1000), VVR)
	lines := strings.Split(err.Error(), "\n")
	require.Less(t, len([]rune(lines[1])), 100)
	require.Contains(t, lines[1], "…")
	require.Equal(t, '(', []rune(lines[1])[len([]rune(lines[2]))-1])
}

// Input of any length and nesting is safe, whatever it is used for.
func TestLongAndDeepExpressions(t *testing.T) {
	for name, tc := range map[string]struct {
		text     string
		language Language
	}{
		"many alternatives":    {strings.Repeat("a:1|", 100_000) + "a:1", VVR},
		"changing operators":   {strings.Repeat("a:1|b:2&", 50_000) + "a:1", VVR},
		"many negations":       {strings.Repeat("!", 200_000) + "a:1", VVR},
		"many in parentheses":  {"(" + strings.Repeat("a:1|b:2&", 50_000) + "a:1)", Extended},
		"negated in a row":     {strings.Repeat("!", 200_000) + "(a:1)", Extended},
		"as deep as it may be": {strings.Repeat("!(", 200) + "a:1" + strings.Repeat(")", 200), Extended},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Parse(tc.text, tc.language)
			require.NoError(t, err)
			require.True(t, Match(e, h("a=1 b=2")))
			require.NotEmpty(t, e.String())
			require.NotEmpty(t, e.Tree())
			Explain(e, h("a=1"))
			Warning(e)
		})
	}
}

func TestWarningWhereTheLanguagesDiffer(t *testing.T) {
	for _, tc := range []struct {
		expression string
		language   Language
		want       string
	}{
		{"depart:toy|depart:book&!env:test", VVR, "in vvr, which is set, (depart:toy | depart:book) & !env:test, and in extended depart:toy | (depart:book & !env:test)"},
		{"a:1|b:2&c:3", Extended, "in extended, which is set, a:1 | (b:2 & c:3), and in vvr (a:1 | b:2) & c:3"},
		{"a:1&b:2|c:3", VVR, ""},
		{"a:1|b:2|c:3", VVR, ""},
		{"a:1|a:1&a:1", VVR, ""}, // the same either way
		{"a:1|b:2&b:2|a:1", VVR, ""},
		{"(a:1|b:2)&c:3", Extended, ""}, // nothing in vvr
		{`a:"x"`, VVR, `in vvr, which is set, a:"\"x\"", and in extended a:x`},
		{"a:x in (b)", Extended, ""},
		{"a:1", VVR, ""},
		{"", VVR, ""},
	} {
		e, err := Parse(tc.expression, tc.language)
		if err != nil {
			require.Equal(t, "a:x in (b)", tc.expression)
			continue
		}
		got := Warning(e)
		if tc.want == "" {
			require.Empty(t, got, tc.expression)
			continue
		}
		require.Contains(t, got, tc.want, tc.expression)
	}
}

func TestStringAndTree(t *testing.T) {
	e, err := Parse("a:1|b:2&c:3&!d:4|e:x\\ y", VVR)
	require.NoError(t, err)
	require.Equal(t, `((a:1 | b:2) & c:3 & !d:4) | e:"x y"`, e.String())
	require.Equal(t, strings.TrimPrefix(`
or
├─ and
│  ├─ or
│  │  ├─ a:1
│  │  └─ b:2
│  ├─ c:3
│  └─ not d:4
└─ e:"x y"
`, "\n"), e.Tree())

	e, err = Parse(`!(a & b~"x\d\"") | c in (1, "2 3") & d >= 5`, Extended)
	require.NoError(t, err)
	require.Equal(t, `!(a & b~"x\d\"") | (c in (1, "2 3") & d >= 5)`, e.String())
	require.Equal(t, strings.TrimPrefix(`
or
├─ not and
│  ├─ a
│  └─ b~"x\d\""
└─ and
   ├─ c in (1, "2 3")
   └─ d >= 5
`, "\n"), e.Tree())
}

func TestExplainSaysWhichTermDecides(t *testing.T) {
	e, err := Parse("depart:toy|depart:book&!env:test", VVR)
	require.NoError(t, err)
	require.Equal(t, Explanation{Matches: false, Terms: []TermResult{
		{Term: "depart:toy", Found: []string{`"toy"`}, Holds: true, Looked: true},
		{Term: "depart:book", Found: []string{`"toy"`}},
		{Term: "!env:test", Found: []string{"null", `"test"`}, Looked: true, Decides: true},
	}}, Explain(e, h("depart=toy env=<null> env=test")))
	require.Equal(t, []string{"ff (not UTF-8)"}, Explain(e, h("depart=\xff")).Terms[0].Found)
	require.True(t, Explain(&Expr{}, nil).Matches)
}
