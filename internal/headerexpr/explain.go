package headerexpr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Explanation is the account of one decision.
type Explanation struct {
	Matches bool
	Terms   []TermResult
}

// TermResult is what became of one term, from left to right.
type TermResult struct {
	// Term is the term in the extended language, with a ! where it is negated.
	Term string
	// Found are the values of the headers of its key, as people read them.
	Found []string
	// Holds is what it is in the expression, with its negation.
	Holds bool
	// Looked is false where what stands left of it had decided already.
	Looked bool
	// Decides is set on the last term that was looked at: with another answer the result would be another one, or would
	// depend on terms behind it.
	Decides bool
}

// Explain decides as Match does, and says how.
func Explain(e *Expr, headers []Header) Explanation {
	if e.root == nil {
		return Explanation{Matches: true}
	}
	x := &Explanation{}
	x.Matches = x.node(e.root, headers, true)
	for i := len(x.Terms) - 1; i >= 0; i-- {
		if x.Terms[i].Looked {
			x.Terms[i].Decides = true
			break
		}
	}
	return *x
}

func (x *Explanation) node(n *node, headers []Header, looked bool) bool {
	if n.term != nil {
		r := TermResult{Term: n.term.String(), Holds: holds(n.term, headers) != n.negated, Looked: looked}
		if n.negated {
			r.Term = "!" + r.Term
		}
		for _, h := range headers {
			if h.Key == n.term.key {
				r.Found = append(r.Found, show(h.Value))
			}
		}
		x.Terms = append(x.Terms, r)
		return r.Holds
	}
	result := x.node(n.operands[0], headers, looked)
	for i, op := range n.ops {
		needed := (op == or) != result
		right := x.node(n.operands[i+1], headers, looked && needed)
		if needed {
			result = right
		}
	}
	return result != n.negated
}

// String is the header as people read it.
func (h Header) String() string {
	return fmt.Sprintf("%s=%s", h.Key, show(h.Value))
}

func show(value []byte) string {
	switch {
	case value == nil:
		return "null"
	case !utf8.Valid(value):
		return fmt.Sprintf("%x (not UTF-8)", value)
	}
	return quote(string(value))
}

// Tree draws the expression as it is evaluated, a line for each operator and term; one that is too deep for that it
// writes with parentheses.
func (e *Expr) Tree() string {
	if e.root == nil {
		return "keep everything\n"
	}
	if e.root.depth() > maxNesting {
		return e.String() + "\n"
	}
	var b strings.Builder
	e.root.draw(&b, "", "")
	return b.String()
}

// depth counts the changes of the operator too: what stands left of one is drawn below it.
func (n *node) depth() int {
	deepest := 0
	for _, o := range n.operands {
		deepest = max(deepest, o.depth())
	}
	for i := 1; i < len(n.ops); i++ {
		if n.ops[i] != n.ops[i-1] {
			deepest++
		}
	}
	return deepest + 1
}

// draw writes the node behind first, and what is below it behind rest.
func (n *node) draw(b *strings.Builder, first, rest string) {
	if n.negated {
		first += "not "
	}
	if n.term != nil {
		fmt.Fprintf(b, "%s%s\n", first, n.term)
		return
	}
	n.drawChain(b, first, rest, len(n.ops))
}

// drawChain writes the first n operators with their operands: those of one kind that follow one another become one line,
// with what stands left of them as their first operand.
func (n *node) drawChain(b *strings.Builder, first, rest string, count int) {
	from := count
	for from > 0 && n.ops[from-1] == n.ops[count-1] {
		from--
	}
	name := "and"
	if n.ops[count-1] == or {
		name = "or"
	}
	fmt.Fprintf(b, "%s%s\n", first, name)
	if from > 0 {
		n.drawChain(b, rest+"├─ ", rest+"│  ", from)
	} else {
		n.operands[0].draw(b, rest+"├─ ", rest+"│  ")
	}
	for i := from; i < count; i++ {
		if i == count-1 {
			n.operands[i+1].draw(b, rest+"└─ ", rest+"   ")
		} else {
			n.operands[i+1].draw(b, rest+"├─ ", rest+"│  ")
		}
	}
}
