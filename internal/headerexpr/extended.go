package headerexpr

import (
	"regexp"
	"strings"
)

// maxNesting bounds how deep parentheses nest.
const maxNesting = 200

// parseExtended reads the language with precedence, ! before & before |:
//
//	expression = conjunction { "|" conjunction } .
//	conjunction = factor { "&" factor } .
//	factor     = "!" factor | "(" expression ")" | term .
//	term       = word [ ":" value | "~" quoted | "in" "(" word { "," word } ")" | comparison number ] .
//	comparison = "<" | "<=" | ">" | ">=" | "==" | "!=" .
//	word       = quoted | bare .
//
// A bare word ends at a blank or at one of & | ! ( ) " ' ~ , < > = : (a bare value may have colons), which a backslash
// makes ordinary characters. A quoted one, in " or ', knows the escapes of its quote and of the backslash; a quoted regular
// expression only that of its quote.
func parseExtended(s *scanner) (*node, error) {
	p := &extendedParser{s}
	n, err := p.expression(0)
	if err != nil {
		return nil, err
	}
	if s.peek() == ')' {
		return nil, s.fail(s.pos, "remove it, or open one before", "a parenthesis is closed that was not opened")
	}
	if !s.done() {
		return nil, s.fail(s.pos, `join terms by & or |; a text with blanks is quoted, "like this"`, "an operator is expected, not %q", s.peek())
	}
	return n, nil
}

type extendedParser struct{ *scanner }

func (p *extendedParser) expression(depth int) (*node, error) {
	return p.joined(or, func() (*node, error) {
		return p.joined(and, func() (*node, error) { return p.factor(depth) })
	})
}

// joined reads operands with one operator between them.
func (p *extendedParser) joined(op operator, operand func() (*node, error)) (*node, error) {
	first, err := operand()
	if err != nil {
		return nil, err
	}
	n := &node{operands: []*node{first}}
	for p.skipBlanks(); p.peek() == rune(op); p.skipBlanks() {
		at := p.pos
		p.next()
		if p.peek() == rune(op) {
			return nil, p.fail(at, "write a single one", "%c%c is not an operator", op, op)
		}
		o, err := operand()
		if err != nil {
			return nil, err
		}
		n.ops, n.operands = append(n.ops, op), append(n.operands, o)
	}
	if len(n.ops) == 0 {
		return first, nil
	}
	return n, nil
}

func (p *extendedParser) factor(depth int) (*node, error) {
	negated := false
	for p.skipBlanks(); p.peek() == '!'; p.skipBlanks() {
		p.next()
		negated = !negated
	}
	if p.peek() != '(' {
		t, err := p.term()
		if err != nil {
			return nil, err
		}
		return &node{negated: negated, term: t}, nil
	}
	at := p.pos
	if depth == maxNesting {
		return nil, p.fail(at, "write it with fewer", "parentheses nest deeper than %d", maxNesting)
	}
	p.next()
	n, err := p.expression(depth + 1)
	if err != nil {
		return nil, err
	}
	if p.peek() != ')' {
		if p.done() {
			return nil, p.fail(at, "close it", "this parenthesis is not closed")
		}
		return nil, p.fail(p.pos, "join terms by & or |, or close the parenthesis", "an operator or ) is expected, not %q", p.peek())
	}
	p.next()
	n.negated = n.negated != negated
	return n, nil
}

func (p *extendedParser) term() (*term, error) {
	key, err := p.word(false, "a term")
	if err != nil {
		return nil, err
	}
	t := &term{key: key, kind: exists}
	p.skipBlanks()
	switch r := p.peek(); {
	case r == ':':
		p.next()
		t.kind = equals
		t.value, err = p.value()
	case r == '~':
		p.next()
		err = p.pattern(t)
	case r == '<', r == '>', r == '=', r == '!' && strings.HasPrefix(p.text[p.pos:], "!="):
		err = p.comparison(t)
	case p.isKeyword("in"):
		p.pos += len("in")
		err = p.list(t)
	}
	return t, err
}

// isKeyword tells whether a word stands here that ends before a blank or a parenthesis.
func (p *extendedParser) isKeyword(word string) bool {
	rest, ok := strings.CutPrefix(p.text[p.pos:], word)
	return ok && (rest == "" || rest[0] == '(' || isBlank(rune(rest[0])))
}

// value is empty where none stands behind the colon.
func (p *extendedParser) value() (string, error) {
	p.skipBlanks()
	switch r := p.peek(); r {
	case eof, '&', '|', ')':
		return "", nil
	}
	return p.word(true, "a value")
}

func (p *extendedParser) pattern(t *term) error {
	p.skipBlanks()
	at := p.pos
	if r := p.peek(); r != '"' && r != '\'' {
		return p.fail(at, `write key~"..."`, "a regular expression in quotes is expected behind ~")
	}
	text, err := p.quoted(true)
	if err != nil {
		return err
	}
	t.kind = pattern
	if t.regex, err = regexp.Compile(text); err != nil {
		return p.fail(at, "regular expressions are RE2, which has no lookaround and no back references", "%v", err)
	}
	return nil
}

func (p *extendedParser) comparison(t *term) error {
	at := p.pos
	t.comparison = string(p.next())
	if p.peek() == '=' {
		t.comparison += string(p.next())
	}
	if t.comparison == "=" {
		return p.fail(at, "write == for numbers, and key:value for text", "= is not an operator")
	}
	p.skipBlanks()
	at = p.pos
	text, err := p.word(false, "a number")
	if err != nil {
		return err
	}
	n, ok := parseNumber([]byte(text))
	if !ok {
		return p.fail(at, "write a decimal number; text is compared by key:value", "%q is not a number", text)
	}
	n.text = text
	t.kind, t.number = compare, n
	return nil
}

func (p *extendedParser) list(t *term) error {
	t.kind = oneOf
	if p.skipBlanks(); p.peek() != '(' {
		return p.fail(p.pos, "write key in (a, b); a key that is the word in is quoted", "a list in parentheses is expected behind in")
	}
	at := p.pos
	p.next()
	for {
		p.skipBlanks()
		v, err := p.word(true, "a value")
		if err != nil {
			return err
		}
		t.values = append(t.values, v)
		p.skipBlanks()
		switch r := p.peek(); r {
		case ',':
			p.next()
		case ')':
			p.next()
			return nil
		case eof:
			return p.fail(at, "close it", "this parenthesis is not closed")
		default:
			return p.fail(p.pos, "write key in (a, b)", "a comma or ) is expected in a list, not %q", r)
		}
	}
}

// isSpecial tells whether a character ends a bare word.
func isSpecial(r rune) bool { return strings.ContainsRune(`&|!()"'~,<>=\`, r) }

// word reads a quoted or a bare word, the latter up to a special character; colons are ordinary ones in values.
func (p *extendedParser) word(isValue bool, what string) (string, error) {
	p.skipBlanks()
	at := p.pos
	if r := p.peek(); r == '"' || r == '\'' {
		return p.quoted(false)
	}
	var b strings.Builder
	for {
		r := p.peek()
		if r == '\\' {
			p.next()
			if err := p.escape(&b); err != nil {
				return "", err
			}
			continue
		}
		if r == eof || isBlank(r) || isSpecial(r) || r == ':' && !isValue {
			break
		}
		b.WriteRune(p.next())
	}
	if b.Len() > 0 {
		return b.String(), nil
	}
	if p.done() {
		return "", p.fail(at, "add it, or remove what stands before", "the expression ends where %s is expected", what)
	}
	return "", p.fail(at, `a text with such characters is quoted, "like this"`, "%s is expected, not %q", what, p.peek())
}

// quoted reads a quoted word. In a regular expression only the quote has an escape, and every other backslash is its own.
func (p *extendedParser) quoted(isRegex bool) (string, error) {
	at := p.pos
	quote := p.next()
	var b strings.Builder
	for {
		switch r := p.next(); r {
		case eof:
			return "", p.fail(at, "close it", "this quote is not closed")
		case quote:
			return b.String(), nil
		case '\\':
			next := p.peek()
			switch {
			case next == eof:
				return "", p.fail(at, "close it", "this quote is not closed")
			case isRegex && next != quote:
				b.WriteRune('\\')
			case next != quote && next != '\\':
				return "", p.fail(p.pos-1, `write \\ for a backslash`, `\%c is not an escape within quotes`, next)
			}
			b.WriteRune(p.next())
		default:
			b.WriteRune(r)
		}
	}
}
