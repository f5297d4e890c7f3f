package headerexpr

import (
	"fmt"
	"math/rand/v2"
)

// exhaustive is up to how many different terms every combination is tried; tries is how many are tried beyond.
const (
	exhaustive = 12
	tries      = 4096
)

// Ambiguity returns how the expression would be evaluated in the other language, where it is one there too and means
// something else; nil otherwise. A single difference is what makes it one, so with many terms it may be overlooked.
func Ambiguity(e *Expr) *Expr {
	other := VVR
	if e.language == VVR {
		other = Extended
	}
	o, err := Parse(e.text, other)
	if err != nil || e.root == nil || o.root == nil {
		return nil
	}
	numbers := make(map[string]int)
	number := func(n *node) []int {
		var out []int
		for _, t := range n.terms(nil) {
			name := t.String()
			if _, ok := numbers[name]; !ok {
				numbers[name] = len(numbers)
			}
			out = append(out, numbers[name])
		}
		return out
	}
	mine, theirs := number(e.root), number(o.root)
	if len(numbers) > max(distinct(mine), distinct(theirs)) {
		return o // they are about different terms
	}
	holds := make([]bool, len(numbers))
	rounds, all := tries, len(numbers) <= exhaustive
	if all {
		rounds = 1 << len(numbers)
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same answer every time
	for round := range rounds {
		for i := range holds {
			holds[i] = random.IntN(2) == 0
			if all {
				holds[i] = round>>i&1 == 1
			}
		}
		if truth(e.root, mine, holds) != truth(o.root, theirs, holds) {
			return o
		}
	}
	return nil
}

func distinct(numbers []int) int {
	seen := make(map[int]bool)
	for _, n := range numbers {
		seen[n] = true
	}
	return len(seen)
}

// truth evaluates a node for given truths of its terms, which numbers gives from left to right.
func truth(n *node, numbers []int, holds []bool) bool {
	result, _ := truthOf(n, numbers, holds)
	return result
}

func truthOf(n *node, numbers []int, holds []bool) (bool, []int) {
	if n.term != nil {
		return holds[numbers[0]] != n.negated, numbers[1:]
	}
	result, numbers := truthOf(n.operands[0], numbers, holds)
	for i, op := range n.ops {
		var right bool
		right, numbers = truthOf(n.operands[i+1], numbers, holds)
		if op == and {
			result = result && right
		} else {
			result = result || right
		}
	}
	return result != n.negated, numbers
}

// Warning says that the expression means something else in the other language, and how it is evaluated; empty where it
// does not.
func Warning(e *Expr) string {
	if e == nil || e.root == nil {
		return ""
	}
	o := Ambiguity(e)
	if o == nil {
		return ""
	}
	return fmt.Sprintf("the expression %q means different things in the two languages of header filters: in %s, which is set, "+
		"%s, and in %s %s", e.text, e.language, e, o.language, o)
}
