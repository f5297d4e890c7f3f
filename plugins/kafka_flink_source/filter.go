package kafkaflinksource

import (
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/headerexpr"
)

func headerFilterField() *service.ConfigField {
	return service.NewAnyField(fieldHeaderFilter).Default("").
		Description("Which records are read, by their headers: an expression such as `depart:toy|depart:book&!env:test`, in quotes, as Alibaba's " +
			"`scan.header-filter`, or `{ expression, language }` where the language is `extended`. The others are never made into messages; the " +
			"position moves past them, and `kafka_source_filtered_records` counts them. An empty expression keeps everything. docs/header-filter.md " +
			"has the languages.").
		Example("depart:toy|depart:book&!env:test").
		Example(map[string]any{benthosx.FieldExpression: "priority >= 5 & !env:test", benthosx.FieldLanguage: string(headerexpr.Extended)}).
		LintRule(`
let expression = if this.type() == "object" { this.expression.or("") } else { this }
let unknown = if this.type() == "object" { this.keys().filter(k -> !["expression", "language"].contains(k)) } else { [] }
root = if !["string", "object"].contains(this.type()) || $expression.type() != "string" {
  "header_filter: %v is neither an expression in quotes nor { expression, language }".format(this.string().quote())
} else if $unknown.length() > 0 {
  "header_filter: field %v not recognised; there are expression and language".format($unknown.index(0))
} else if this.type() == "object" && !["vvr", "extended"].contains(this.language.or("vvr").string().lowercase()) {
  "header_filter.language: %v is not vvr or extended".format(this.language.string().quote())
} else if $expression.trim().has_prefix(":") {
  "header_filter: ` + benthosx.QuoteExpression + `".format($expression.quote())
}`)
}

// filterFromConfig returns nil where every record is kept.
func filterFromConfig(p *benthosx.Parser) *headerexpr.Expr {
	v, err := p.Conf.FieldAny(fieldHeaderFilter)
	p.Join(err)
	text, language := "", string(headerexpr.VVR)
	switch v := v.(type) {
	case string:
		text = v
	case map[string]any:
		for name, value := range v {
			s, ok := value.(string)
			switch {
			case !ok:
				p.Fail([]string{fieldHeaderFilter, name}, "%v is no text; quote it, if it is", value)
			case name == benthosx.FieldExpression:
				text = s
			case name == benthosx.FieldLanguage:
				language = s
			default:
				p.Fail([]string{fieldHeaderFilter, name}, "unknown; there are expression and language")
			}
		}
	default:
		p.Fail([]string{fieldHeaderFilter}, "%v is neither an expression in quotes nor { expression, language }", v)
	}
	e, err := benthosx.HeaderExpression(text, language)
	if err != nil {
		p.Fail([]string{fieldHeaderFilter}, "%v", err)
		return nil
	}
	if e.Empty() {
		return nil
	}
	return e
}
