package kafkaflinksource

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidegate/tidegate/internal/benthosx"
)

// reserved begins every name that the source sets, now and in later versions.
const reserved = "kafka_"

// headerNames says which headers become metadata under their own names too.
type headerNames struct {
	prefixes []string
	patterns []*regexp.Regexp
}

func (h *headerNames) any() bool { return len(h.prefixes) > 0 || len(h.patterns) > 0 }

// wants never lets a header take the place of what the source sets (rule 9). Metadata without a name cannot be read.
func (h *headerNames) wants(name string) bool {
	if name == "" || strings.HasPrefix(name, reserved) {
		return false
	}
	return slices.ContainsFunc(h.prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) ||
		slices.ContainsFunc(h.patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) })
}

// set gives the message the headers that are wanted, as text, since that is what other inputs of Benthos make of
// headers. Of several with one name the last one counts. A header that is null is absent: Benthos reads null metadata
// as the text "null" in places.
func (h *headerNames) set(msg *service.Message, headers []kgo.RecordHeader) {
	for i := range headers {
		switch {
		case !h.wants(headers[i].Key):
		case headers[i].Value == nil:
			msg.MetaDelete(headers[i].Key)
		default:
			msg.MetaSetMut(headers[i].Key, string(headers[i].Value))
		}
	}
}

func headerNamesFromConfig(p *benthosx.Parser) headerNames {
	h := headerNames{prefixes: p.List(fieldHeaderMetadata, fieldIncludePrefixes)}
	for _, text := range p.List(fieldHeaderMetadata, fieldIncludePatterns) {
		pattern, err := regexp.Compile(text)
		if err != nil {
			p.Fail([]string{fieldHeaderMetadata, fieldIncludePatterns}, "%q is not a regular expression of RE2: %v", text, err)
			continue
		}
		h.patterns = append(h.patterns, pattern)
	}
	return h
}

func headerMetadataField() *service.ConfigField {
	return service.NewObjectField(fieldHeaderMetadata,
		service.NewStringListField(fieldIncludePrefixes).Default([]any{}).
			Description("Beginnings of names.").Example([]any{"app_"}).Example([]any{""}),
		service.NewStringListField(fieldIncludePatterns).Default([]any{}).
			Description("Regular expressions (RE2) that match anywhere in a name, unless they begin with `^` and end with `$`.").
			Example([]any{"^(tenant|region)$"}).
			// On a list the rule is asked for each item.
			LintRule(fmt.Sprintf(`
let bad = "".re_match(this.string()).catch(err -> err)
root = if this.type() == "string" && $bad.type() == "string" {
  "%s.%s: %%v is not a regular expression of RE2: %%v".format(this.quote(), $bad)
}`, fieldHeaderMetadata, fieldIncludePatterns)),
	).Advanced().Description("Which record headers become metadata under their own names too, as text: `@tenant` is then the value of " +
		"the header `tenant`. Of several with one name the last one counts; a null value is absent; names that begin with `kafka_` are " +
		"left out. The sink writes `kafka_headers` only. By default there are none.")
}
