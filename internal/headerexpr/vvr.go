package headerexpr

import "strings"

// parseVVR reads terms joined by operators:
//
//	expression = term { ("|" | "&") term } .
//	term       = { "!" } key ":" value .
//
// The first colon splits. Blanks around keys, values and operators mean nothing; inside of them they count. A backslash
// makes an ordinary character of an operator, a colon, a parenthesis, a blank or a backslash.
func parseVVR(s *scanner) (*node, error) {
	first, err := vvrTerm(s)
	if err != nil {
		return nil, err
	}
	chain := &node{operands: []*node{first}}
	for !s.done() {
		op := operator(s.next()) // a term ends only before an operator, or at the end
		n, err := vvrTerm(s)
		if err != nil {
			return nil, err
		}
		chain.ops, chain.operands = append(chain.ops, op), append(chain.operands, n)
	}
	if len(chain.ops) == 0 {
		return first, nil
	}
	return chain, nil
}

func vvrTerm(s *scanner) (*node, error) {
	n := &node{}
	for s.skipBlanks(); s.peek() == '!'; s.skipBlanks() {
		s.next()
		n.negated = !n.negated
	}
	at := s.pos
	switch s.peek() {
	case eof:
		return nil, s.fail(at, "add a term, key:value, or remove the operator before it", "the expression ends where a term is expected")
	case '&', '|':
		return nil, s.fail(at, "add a term, key:value, or remove an operator", "%q stands where a term is expected", s.peek())
	}
	key, err := vvrText(s, true)
	if err != nil {
		return nil, err
	}
	if s.peek() != ':' {
		return nil, s.fail(at, "write key:value; whether a header is there at all can be asked in language: extended",
			"the term %q has no colon between a key and a value", key)
	}
	s.next()
	if key == "" {
		return nil, s.fail(at, "write key:value; a colon that belongs to the key is written \\:", "the term has no key before its colon")
	}
	value, err := vvrText(s, false)
	if err != nil {
		return nil, err
	}
	n.term = &term{key: key, kind: equals, value: value}
	return n, nil
}

// vvrText reads a key, up to a colon or an operator, or a value, up to an operator.
func vvrText(s *scanner, isKey bool) (string, error) {
	var b strings.Builder
	s.skipBlanks()
	kept := 0 // up to here nothing is a blank at the end
	for {
		at := s.pos
		switch r := s.peek(); {
		case r == eof, r == '&', r == '|', isKey && r == ':':
			return b.String()[:kept], nil
		case r == '(', r == ')':
			return "", s.fail(at, `set language: extended, which has parentheses; or write \`+string(r)+` where it is part of a key or value`,
				"language vvr has no parentheses: it is evaluated from left to right")
		case r == '!':
			return "", s.fail(at, `write \! where it is part of a key or value, or | or & before it`, "a ! stands inside a term")
		case r == '\\':
			s.next()
			if err := s.escape(&b); err != nil {
				return "", err
			}
			kept = b.Len()
		default:
			b.WriteRune(s.next())
			if !isBlank(r) {
				kept = b.Len()
			}
		}
	}
}
