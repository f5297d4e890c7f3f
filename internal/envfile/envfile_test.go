package envfile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValuesAreReadAsTheyStand(t *testing.T) {
	for line, want := range map[string]Variable{
		"A=ab":                        {"A", "ab"},
		"A=ab#cd":                     {"A", "ab#cd"},
		"A=ab cd":                     {"A", "ab cd"},
		"A=ab=cd==":                   {"A", "ab=cd=="},
		`A=ab"cd'\n$B`:                {"A", `ab"cd'\n$B`},
		"A=":                          {"A", ""},
		"A=''":                        {"A", ""},
		"A='a=b'":                     {"A", "a=b"},
		`A='a "b" \n # c'`:            {"A", `a "b" \n # c`},
		`A="a 'b' # c" # a comment`:   {"A", "a 'b' # c"},
		`A="a\"b\\c\nd\te\rf\$g $H"`:  {"A", "a\"b\\c\nd\te\rf$g $H"},
		"A=' ab '  ":                  {"A", " ab "},
		"export A=ab":                 {"A", "ab"},
		"export\tA='a b'":             {"A", "a b"},
		"export=ab":                   {"export", "ab"},
		"  A=ab\r":                    {"A", "ab"},
		"\ufeffA=ab":                  {"A", "ab"},
		"a.b_1=Grüße, 世界":             {"a.b_1", "Grüße, 世界"},
		"# a comment\n\n \t\n#\nA=ab": {"A", "ab"},
	} {
		got, err := Parse("f.env", line)
		require.NoError(t, err, line)
		require.Equal(t, []Variable{want}, got, line)
	}
	got, err := Parse("f.env", "A=1\nB=2\nA=3\n")
	require.NoError(t, err)
	require.Equal(t, []Variable{{"A", "1"}, {"B", "2"}, {"A", "3"}}, got, "in the file's order: the last one counts")
}

// TestLinesThatOthersReadOtherwiseAreRefusedUnprinted: each line holds hunt as part of a password.
func TestLinesThatOthersReadOtherwiseAreRefusedUnprinted(t *testing.T) {
	for line, want := range map[string]string{
		"hunter2":                       `f.env(1,1): there is no = in the line, which has to be NAME="value"`,
		"export hunter2":                "f.env(1,1): there is no = in the line",
		"# c\nKAFKA_PASSWORD: hunter2":  "f.env(2,1): there is no = in the line",
		"KAFKA_PASSWORD: hunter2=":      "f.env(1,1): what stands before the = is no name",
		"hunter2!=x":                    "f.env(1,1): what stands before the = is no name",
		`hunter2="x`:                    "f.env(1,1): the quote",
		"KAFKA_PASSWORD =hunter2":       "f.env(1,1) KAFKA_PASSWORD: there is a blank before the =",
		"HUNTER2 =hunter2":              "f.env(1,1): there is a blank before the =",
		"KAFKA_PASSWORD= hunter2":       "f.env(1,1) KAFKA_PASSWORD: there is a blank behind the =",
		"KAFKA_PASSWORD=hunter2 ":       "f.env(1,1) KAFKA_PASSWORD: there is a blank at the end",
		"KAFKA_PASSWORD=hunter2 # c":    "f.env(1,1) KAFKA_PASSWORD: a # at the beginning of a value or behind a blank",
		"KAFKA_PASSWORD=#hunter2":       "a # at the beginning",
		`KAFKA_PASSWORD="hunter2`:       "f.env(1,1) KAFKA_PASSWORD: the quote at the beginning of the value is not closed",
		`KAFKA_PASSWORD="hunter2\`:      "is not closed",
		`KAFKA_PASSWORD='hunter2`:       "is not closed",
		`KAFKA_PASSWORD="hun"ter2`:      `write \" for a quote`,
		`KAFKA_PASSWORD='hunt'er2`:      "goes into double quotes",
		`KAFKA_PASSWORD="hunt"#er2`:     "text behind the closing quote",
		`KAFKA_PASSWORD="hunt"#er2 `:    "text behind the closing quote",
		`KAFKA_PASSWORD="hunt\er2"`:     `write \\ for a backslash`,
		"KAFKA_PASSWORD=hunt\x00er2":    "a zero byte",
		"=hunter2":                      "f.env(1,1): what stands before the = is no name",
		"h\x00u\x00n\x00t\x00=\x00x":    "no name of a variable",
		"A=1\nhunter2\nB=2\n'hunter2'=": "f.env(2,1): there is no = in the line, which has to be NAME=\"value\"\nf.env(4,1): what stands",
	} {
		_, err := Parse("f.env", line)
		require.ErrorContains(t, err, want, line)
		require.NotContains(t, err.Error(), "hunt", "rule 13")
	}
}
