package envfile

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Variable is one line of a file.
type Variable struct {
	Name, Value string
}

// LineError says what is wrong with a line. It holds nothing of the line but a name that cannot be mistaken for a password.
type LineError struct {
	File string
	Line int
	// Name is empty where there is none, and where it may be part of a password.
	Name   string
	Reason string
}

func (e *LineError) Error() string {
	at := fmt.Sprintf("%s(%d,1)", e.File, e.Line)
	if e.Name != "" {
		at += " " + e.Name
	}
	return at + ": " + e.Reason
}

// form is what a line has to be, for errors.
const form = `NAME="value"`

var (
	// name is what Benthos takes for the name of a variable in a config.
	name = regexp.MustCompile(`^[0-9A-Za-z_.]+$`)
	// plain is a name that is no password, which a line may be too, with an = in it: words with a _ between them.
	plain = regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$`)
)

// Parse reads a file. Empty lines and those that begin with # are skipped; every other one is NAME=value, with `export`
// before it or not. A value in single quotes is what stands between them; in double quotes \n, \r, \t, \", \\ and \$ have
// their usual meaning; without quotes it is the rest of the line. Nothing is expanded. Its error joins those of all lines.
func Parse(file, text string) ([]Variable, error) {
	var all []Variable
	var errs []error
	text = strings.TrimPrefix(text, "\ufeff")
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		v, reason := parseLine(strings.TrimLeft(line, " \t"))
		if reason != "" {
			if !plain.MatchString(v.Name) {
				v.Name = ""
			}
			errs = append(errs, &LineError{File: file, Line: i + 1, Name: v.Name, Reason: reason})
			continue
		}
		all = append(all, v)
	}
	return all, errors.Join(errs...)
}

// parseLine reads a line without what is before it; reason tells why it is refused.
func parseLine(line string) (v Variable, reason string) {
	if rest, is := strings.CutPrefix(line, "export"); is && strings.TrimLeft(rest, " \t") != rest {
		line = strings.TrimLeft(rest, " \t")
	}
	key, value, found := strings.Cut(line, "=")
	switch {
	case !found:
		return v, "there is no = in the line, which has to be " + form
	case strings.TrimSpace(key) != key && name.MatchString(strings.TrimSpace(key)):
		return Variable{Name: strings.TrimSpace(key)}, "there is a blank before the =; write " + form
	case !name.MatchString(key):
		return v, "what stands before the = is no name of a variable, which has letters, digits, _ and . alone; write " + form
	}
	v.Name = key
	if strings.ContainsRune(value, 0) {
		return v, "the value has a zero byte in it, which no variable can have; is the file a text in UTF-8?"
	}
	if value == "" {
		return v, ""
	}
	switch value[0] {
	case '\'', '"':
		v.Value, reason = quoted(value)
	default:
		v.Value, reason = value, bare(value)
	}
	return v, reason
}

// bare tells why a value needs quotes: where others would cut it.
func bare(value string) string {
	const quote = `; put the value in quotes, ` + form
	switch runes := []rune(value); {
	case unicode.IsSpace(runes[0]):
		return "there is a blank behind the =" + quote
	case unicode.IsSpace(runes[len(runes)-1]):
		return "there is a blank at the end of the value; remove it, or put the value in quotes, " + form
	case value[0] == '#' || strings.Contains(value, " #") || strings.Contains(value, "\t#"):
		return "a # at the beginning of a value or behind a blank begins a comment to some and not to others" + quote
	}
	return ""
}

// quoted reads a value that begins with a quote.
func quoted(value string) (text, reason string) {
	quote := value[0]
	var out strings.Builder
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c == quote:
			rest := strings.TrimLeft(value[i+1:], " \t")
			if rest == "" || rest[0] == '#' && rest != value[i+1:] {
				return out.String(), ""
			}
			return "", closed(quote)
		case c == '\\' && quote == '"':
			i++
			if i == len(value) {
				return "", "the quote at the beginning of the value is not closed in its line"
			}
			escaped, known := escapes[value[i]]
			if !known {
				return "", `behind a backslash in double quotes may be n, r, t, ", $ or another backslash; write \\ for a backslash`
			}
			out.WriteByte(escaped)
		default:
			out.WriteByte(c)
		}
	}
	return "", `the quote at the beginning of the value is not closed in its line; for a line break write \n in double quotes`
}

var escapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', '"': '"', '\\': '\\', '$': '$'}

// closed is what is said of text behind the closing quote.
func closed(quote byte) string {
	if quote == '"' {
		return `there is text behind the closing quote; write \" for a quote in the value`
	}
	return `there is text behind the closing quote; a value with a ' in it goes into double quotes`
}
