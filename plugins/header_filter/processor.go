package headerfilter

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/headerexpr"
)

// mark is the metadata that on_mismatch: mark sets to false.
const mark = "header_filter_match"

// processor looks at one message at a time: a batch processor's messages lose their contexts where one is dropped, and
// with it the tag by which the sink knows whose they are (rule 8).
type processor struct {
	expr *headerexpr.Expr
	// from is the metadata that holds the list of headers, empty where the metadata themselves are the headers.
	from string
	drop bool

	matched, mismatched *service.MetricCounter
}

var _ service.Processor = (*processor)(nil)

func newProcessor(conf *service.ParsedConfig, res *service.Resources) (service.Processor, error) {
	cfg, err := parseConfig(conf)
	if err != nil {
		return nil, err
	}
	if warning := headerexpr.Warning(cfg.expr); warning != "" {
		benthosx.Logger(res).Warn("header_filter: " + warning)
	}
	metrics := res.Metrics()
	return &processor{
		expr: cfg.expr, from: cfg.from, drop: cfg.drop,
		matched: metrics.NewCounter("header_filter_matched_messages"), mismatched: metrics.NewCounter("header_filter_mismatched_messages"),
	}, nil
}

// Process returns the message, marked, or nothing. An error is about a value under headers_from that is no list of headers:
// the message goes on as one that failed.
func (p *processor) Process(_ context.Context, msg *service.Message) (service.MessageBatch, error) {
	headers, err := p.headers(msg)
	if err != nil {
		return nil, err
	}
	if headerexpr.Match(p.expr, headers) {
		p.matched.Incr(1)
		return service.MessageBatch{msg}, nil
	}
	p.mismatched.Incr(1)
	if p.drop {
		return nil, nil
	}
	msg.MetaSetMut(mark, false)
	return service.MessageBatch{msg}, nil
}

// headers are those of the list, or, of a message that has none, its metadata.
func (p *processor) headers(msg *service.Message) (benthosx.Headers, error) {
	if p.from != "" {
		list, found, err := benthosx.HeadersFrom(msg, p.from)
		switch {
		case err != nil:
			return nil, fmt.Errorf("headers_from @%s: %w", p.from, err)
		case found:
			return list, nil
		}
	}
	var all benthosx.Headers
	err := msg.MetaWalkMut(func(key string, value any) error {
		h := benthosx.Headers{{Key: key}}
		if value != nil {
			if h[0].Value, _ = benthosx.Bytes(value); h[0].Value == nil {
				return nil // an object or a list is no header
			}
		}
		all = append(all, h...)
		return nil
	})
	return all, err
}

// Close has nothing to close.
func (*processor) Close(context.Context) error { return nil }

// config is the parsed config of one processor.
type config struct {
	expr *headerexpr.Expr
	from string
	drop bool
}

func parseConfig(conf *service.ParsedConfig) (c config, err error) {
	p := &benthosx.Parser{Conf: conf}
	c.expr, err = benthosx.HeaderExpression(p.String(benthosx.FieldExpression), p.String(benthosx.FieldLanguage))
	if err != nil {
		p.Fail([]string{benthosx.FieldExpression}, "%v", err)
	}
	from := p.String(fieldHeadersFrom)
	name, isMeta := strings.CutPrefix(from, "@")
	switch {
	case from == fromMetadata:
	case isMeta && name != "":
		c.from = name
	default:
		p.Fail([]string{fieldHeadersFrom}, "%q is neither the name of metadata, such as @kafka_headers, nor %s", from, fromMetadata)
	}
	switch onMismatch := p.Enum(fieldOnMismatch); onMismatch {
	case mismatchDrop:
		c.drop = true
	case mismatchMark:
	default:
		p.Fail([]string{fieldOnMismatch}, "%q is not %s or %s", onMismatch, mismatchDrop, mismatchMark)
	}
	return c, errors.Join(p.Errs...)
}
