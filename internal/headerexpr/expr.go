package headerexpr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Language is the language of an expression.
type Language string

// The languages.
const (
	VVR      Language = "vvr"
	Extended Language = "extended"
)

// Languages are all of them, the default first.
var Languages = []Language{VVR, Extended}

// maxLength bounds the text of an expression, in bytes.
const maxLength = 1 << 20

// Header is one header of a record. A nil Value is a null one.
type Header struct {
	Key   string
	Value []byte
}

// Expr is a parsed expression. It never changes and may be used by several goroutines at once.
type Expr struct {
	text     string
	language Language
	root     *node // nil keeps everything
}

// Parse reads an expression. An empty one, or one of blanks alone, keeps everything. Its error is a *SyntaxError, or says
// that there is no such language.
func Parse(text string, language Language) (*Expr, error) {
	e := &Expr{text: text, language: language}
	if !slices.Contains(Languages, language) {
		return nil, fmt.Errorf("%q is not a language of header filters; it is %s or %s", string(language), VVR, Extended)
	}
	if len(text) > maxLength {
		return nil, fmt.Errorf("the expression has %d bytes, more than the %d there may be", len(text), maxLength)
	}
	s := newScanner(text, language)
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.skipBlanks(); s.done() {
		return e, nil
	}
	var err error
	if language == VVR {
		e.root, err = parseVVR(s)
	} else {
		e.root, err = parseExtended(s)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Text is the expression as it was written.
func (e *Expr) Text() string { return e.text }

// Language is the one it is in.
func (e *Expr) Language() Language { return e.language }

// Empty tells whether the expression keeps everything because there is none.
func (e *Expr) Empty() bool { return e.root == nil }

// String is the expression with parentheses as it is evaluated, in the extended language.
func (e *Expr) String() string {
	if e.root == nil {
		return ""
	}
	var b strings.Builder
	e.root.write(&b, false)
	return b.String()
}

// Match tells whether a record with these headers is kept. It allocates nothing. The type parameter lets a caller pass
// header lists of other packages as they are.
func Match[H ~struct {
	Key   string
	Value []byte
}](e *Expr, headers []H) bool {
	return e.root == nil || matches(e.root, headers)
}

// operator joins an operand to what stands left of it.
type operator byte

const (
	or  operator = '|'
	and operator = '&'
)

// node is a term, or operands that are evaluated from left to right.
type node struct {
	negated bool
	// term is nil where there are operands.
	term *term
	// operands are at least two, ops one fewer: ops[i] stands before operands[i+1].
	operands []*node
	ops      []operator
}

func matches[H ~struct {
	Key   string
	Value []byte
}](n *node, headers []H) bool {
	if n.term != nil {
		return holds(n.term, headers) != n.negated
	}
	result := matches(n.operands[0], headers)
	for i, op := range n.ops {
		// What cannot change the result any more is not looked at.
		if (op == or) != result {
			result = matches(n.operands[i+1], headers)
		}
	}
	return result != n.negated
}

// write writes the node with parentheses as it is evaluated; nested in another one it needs some around itself.
func (n *node) write(b *strings.Builder, nested bool) {
	if n.negated {
		b.WriteByte('!')
	}
	if n.term != nil {
		b.WriteString(n.term.String())
		return
	}
	// From left to right means that what stands left of an operator is one operand of it, wherever the operator changes.
	groups := 0
	for i := 1; i < len(n.ops); i++ {
		if n.ops[i] != n.ops[i-1] {
			groups++
		}
	}
	if nested || n.negated {
		b.WriteByte('(')
		defer b.WriteByte(')')
	}
	for range groups {
		b.WriteByte('(')
	}
	n.operands[0].write(b, true)
	for i, op := range n.ops {
		if i > 0 && op != n.ops[i-1] {
			b.WriteByte(')')
		}
		fmt.Fprintf(b, " %c ", op)
		n.operands[i+1].write(b, true)
	}
}

// terms appends the node's terms from left to right, iteratively in length and recursively only in nesting, which is
// bounded.
func (n *node) terms(out []*term) []*term {
	if n.term != nil {
		return append(out, n.term)
	}
	for _, o := range n.operands {
		out = o.terms(out)
	}
	return out
}

// SyntaxError says where an expression is wrong.
type SyntaxError struct {
	Expression string
	Language   Language
	// Column is where, counted in characters from 1.
	Column int
	// Problem is what is wrong, Fix what to do.
	Problem, Fix string
}

// shown is how many characters of an expression an error shows on either side of the place.
const shown = 40

func (e *SyntaxError) Error() string {
	text := []rune(e.Expression)
	at := e.Column - 1
	from, to := max(0, at-shown), min(len(text), at+shown)
	line, caret := string(text[from:to]), at-from
	if from > 0 {
		line, caret = "…"+line, caret+1
	}
	if to < len(text) {
		line += "…"
	}
	line = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' {
			return ' ' // so that the caret stands below its character
		}
		return r
	}, line)
	msg := fmt.Sprintf("column %d: %s", e.Column, e.Problem)
	if e.Fix != "" {
		msg += "; " + e.Fix
	}
	return fmt.Sprintf("%s\n  %s\n  %s^", msg, line, strings.Repeat(" ", caret))
}

// IsSyntax tells whether an error is about the text of an expression.
func IsSyntax(err error) bool { return errors.As(err, new(*SyntaxError)) }
