package headerexpr

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// scanner goes through the text of an expression, by bytes. Columns are counted only for errors.
type scanner struct {
	text     string
	language Language
	pos      int
}

func newScanner(text string, language Language) *scanner {
	return &scanner{text: text, language: language}
}

// eof is what peek returns at the end.
const eof rune = -1

func (s *scanner) done() bool { return s.pos >= len(s.text) }

func (s *scanner) peek() rune {
	if s.done() {
		return eof
	}
	r, _ := utf8.DecodeRuneInString(s.text[s.pos:])
	return r
}

func (s *scanner) next() rune {
	if s.done() {
		return eof
	}
	r, size := utf8.DecodeRuneInString(s.text[s.pos:])
	s.pos += size
	return r
}

func isBlank(r rune) bool { return unicode.IsSpace(r) }

func (s *scanner) skipBlanks() {
	for !s.done() && isBlank(s.peek()) {
		s.next()
	}
}

// fail makes an error about the character at a byte position.
func (s *scanner) fail(pos int, fix, problem string, args ...any) error {
	return &SyntaxError{
		Expression: s.text, Language: s.language, Column: utf8.RuneCountInString(s.text[:pos]) + 1,
		Problem: fmt.Sprintf(problem, args...), Fix: fix,
	}
}

// check refuses text that no header's value can equal.
func (s *scanner) check() error {
	if i := invalidAt(s.text); i >= 0 {
		return s.fail(i, "remove it", "the expression is not valid UTF-8: byte 0x%02x", s.text[i])
	}
	return nil
}

func invalidAt(text string) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// escapable are the characters that a backslash makes ordinary ones, beside blanks.
const escapable = `:&|!\()"'~,<>=`

// escape reads what follows a backslash.
func (s *scanner) escape(b *strings.Builder) error {
	at := s.pos - 1
	switch r := s.next(); {
	case r == eof:
		return s.fail(at, `write \\ for a backslash`, "a backslash has nothing behind it")
	case isBlank(r), strings.ContainsRune(escapable, r):
		b.WriteRune(r)
		return nil
	default:
		return s.fail(at, `write \\ for a backslash`, `\%c is not an escape: a backslash stands before one of %s and blanks`, r, escapable)
	}
}
