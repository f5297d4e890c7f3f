package benthosx

import (
	"strings"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/headerexpr"
)

// Fields of a header expression, in the source as in the processor.
const (
	FieldExpression = "expression"
	FieldLanguage   = "language"
)

// QuoteExpression is what a lint says of an expression, "%v", that begins with a colon.
const QuoteExpression = `%v begins with a colon, and so has no key; where that is not what is written, YAML has taken the rest for ` +
	`something else: an expression that begins with !, & or | has to be quoted`

// HeaderExpressionFields are the config fields of a header expression.
func HeaderExpressionFields() []*service.ConfigField {
	return []*service.ConfigField{
		service.NewStringField(FieldExpression).
			Description("The expression, in quotes: YAML makes something else of a value that begins with `!`, `&` or `|`. An empty one keeps everything.").
			Example("depart:toy|depart:book&!env:test").
			LintRule(`
root = if this.string().trim().has_prefix(":") {
  "expression: ` + QuoteExpression + `".format(this.string().quote())
}`),
		service.NewStringAnnotatedEnumField(FieldLanguage, map[string]string{
			string(headerexpr.VVR):      "Terms `key:value` joined by `|`, `&` and `!`, strictly from left to right, without parentheses, as in Alibaba's connector.",
			string(headerexpr.Extended): "`!` before `&` before `|`, parentheses, quotes, existence, regular expressions, lists and numbers.",
		}).Default(string(headerexpr.VVR)).Description("The language of the expression."),
	}
}

// HeaderExpression parses an expression; the case of the language does not matter.
func HeaderExpression(text, language string) (*headerexpr.Expr, error) {
	return headerexpr.Parse(text, headerexpr.Language(strings.ToLower(language)))
}
