package kafkaflinksink

import (
	"errors"
	"strings"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/benthosx"
	"github.com/tidegate/tidegate/internal/checkpoint"
	"github.com/tidegate/tidegate/internal/kafkaclient"
	"github.com/tidegate/tidegate/internal/kafkasink"
)

// maxTimeout is what a number of milliseconds in 32 bits holds, rounded.
const maxTimeout = 500 * time.Hour

// leastCommitInterval is about what a transaction costs.
const leastCommitInterval = time.Millisecond

// config is the parsed config of one output.
type config struct {
	connection         kafkaclient.Config
	guarantee          kafkasink.Guarantee
	pool               checkpoint.Pool
	onLost             checkpoint.Policy
	transactionTimeout time.Duration
	commitInterval     time.Duration
	maxInFlight        int
	records            *recordBuilder
}

// knownTopics are the topics that are known before the first message.
func (c *config) knownTopics() []string {
	if c.records.constantTopic == "" {
		return nil
	}
	return []string{c.records.constantTopic}
}

var guarantees = map[string]kafkasink.Guarantee{
	guaranteeNone: kafkasink.None, guaranteeAtLeastOnce: kafkasink.AtLeastOnce, guaranteeExactlyOnce: kafkasink.ExactlyOnce,
}

var policies = map[string]checkpoint.Policy{
	lostReplay: checkpoint.Replay, lostFail: checkpoint.Fail, lostContinue: checkpoint.Continue,
}

// parseConfig reads a config without any side effect. Its error names every field that is wrong.
func parseConfig(conf *service.ParsedConfig) (config, error) {
	p := &benthosx.Parser{Conf: conf}
	var c config
	var err error
	c.connection, err = benthosx.ConnectionFromConfig(conf, kafkaclient.Sink)
	p.Join(err)
	c.maxInFlight = p.Int(1, fieldMaxInFlight)
	name := p.Enum(fieldGuarantee)
	var ok, known bool
	if c.guarantee, known = guarantees[name]; !known {
		p.Fail([]string{fieldGuarantee}, "%q is not none, at-least-once or exactly-once", name)
	}
	policy := p.Enum(fieldTransactions, fieldOnLost)
	if c.onLost, ok = policies[policy]; !ok {
		p.Fail([]string{fieldTransactions, fieldOnLost}, "%q is not replay, fail or continue", policy)
	}
	size := p.Int(minPoolSize, fieldTransactions, fieldPoolSize)
	index := int(checkpoint.SourcesIndex)
	if p.Conf.Contains(fieldIndex) {
		index = p.Int(0, fieldIndex)
	}
	if p.String(fieldTransactions, fieldTimeout) != "" {
		c.transactionTimeout = p.Duration(time.Second, fieldTransactions, fieldTimeout)
		if c.transactionTimeout > maxTimeout {
			p.Fail([]string{fieldTransactions, fieldTimeout}, "%s is more than %s, the most that fits into a request",
				p.String(fieldTransactions, fieldTimeout), maxTimeout)
		}
	}
	propertiesFromConfig(p, &c, name)
	c.commitInterval = p.Duration(leastCommitInterval, fieldTransactions, fieldCommitInterval)
	if c.transactionTimeout > 0 && c.commitInterval >= c.transactionTimeout {
		p.Fail([]string{fieldTransactions, fieldCommitInterval}, "%v is not less than transactions.timeout, %v: the broker "+
			"would abort transactions before they are committed", c.commitInterval, c.transactionTimeout)
	}
	prefix := strings.TrimSpace(p.String(fieldPrefix))
	switch {
	case known && c.guarantee != kafkasink.ExactlyOnce && prefix != "":
		// Who names a prefix expects transactions, and the default are none.
		p.Fail([]string{fieldPrefix}, "%q has no effect with delivery_guarantee: %s, which writes without transactions; set "+
			"delivery_guarantee: exactly-once, or remove transactional_id_prefix", prefix, name)
	case c.guarantee == kafkasink.ExactlyOnce:
		if prefix == "" {
			p.Fail([]string{fieldPrefix}, "required with delivery_guarantee: exactly-once; choose one that no other job uses")
		}
		c.pool = checkpoint.Pool{Prefix: prefix, Index: int32(index), Size: int32(size)}
	}
	c.records, err = recordsFromConfig(conf, p)
	p.Join(err)
	return c, errors.Join(p.Errs...)
}

// propertiesFromConfig is what a field and one of Kafka's own properties can both say, and what a guarantee does not allow.
func propertiesFromConfig(p *benthosx.Parser, c *config, guarantee string) {
	properties := c.connection.Properties
	refuse := func(name, why string) {
		p.Fail([]string{"properties", name}, "%s does not go with delivery_guarantee: %s, %s", properties.Text(name), guarantee, why)
	}
	if acks := properties.Text("acks"); (acks == "0" || acks == "1") && c.guarantee != kafkasink.None {
		refuse("acks", "since a record that not all in-sync replicas have may be lost; remove it, or set delivery_guarantee: none")
	}
	if on, set := properties.Bool("enable.idempotence"); set && !on && c.guarantee == kafkasink.ExactlyOnce {
		refuse("enable.idempotence", "whose transactions need idempotent producers; remove it")
	}
	if d, ok := properties.Duration("transaction.timeout.ms"); ok {
		switch {
		case c.guarantee != kafkasink.ExactlyOnce:
			refuse("transaction.timeout.ms", "which writes without transactions; remove it")
		case c.transactionTimeout > 0:
			p.Fail([]string{"properties", "transaction.timeout.ms"}, "it and transactions.timeout say the same thing; remove one of them")
		default:
			c.transactionTimeout = d
		}
	}
}

func recordsFromConfig(conf *service.ParsedConfig, p *benthosx.Parser) (*recordBuilder, error) {
	b := &recordBuilder{}
	var err error
	if b.topic, err = conf.FieldInterpolatedString(fieldTopic); err != nil {
		return nil, err
	}
	if name, ok := b.topic.Static(); ok {
		if b.constantTopic = name; strings.TrimSpace(name) == "" {
			p.Fail([]string{fieldTopic}, "names no topic")
		}
	}
	if b.key, err = valueFromConfig(conf, fieldKey); err != nil {
		return nil, err
	}
	if b.timestamp, err = valueFromConfig(conf, fieldTimestamp); err != nil {
		return nil, err
	}
	from := strings.TrimSpace(p.String(fieldHeaders, fieldFrom))
	if from != "" && (!strings.HasPrefix(from, "@") || len(from) == 1) {
		p.Fail([]string{fieldHeaders, fieldFrom}, "%q does not name metadata; write it as \"@kafka_headers\", or leave it "+
			"empty for no headers", from)
	}
	b.headersFrom = strings.TrimPrefix(from, "@")
	return b, nil
}
