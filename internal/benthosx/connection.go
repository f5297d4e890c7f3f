package benthosx

import (
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/kafkaclient"
)

const fieldBootstrapServers = "bootstrap_servers"

// ConnectionFields are the config fields of a Kafka connection, shared by source and sink.
func ConnectionFields() []*service.ConfigField {
	return []*service.ConfigField{
		// Any, since Benthos's own lists refuse Kafka's usual form, one comma-separated string.
		service.NewAnyField(fieldBootstrapServers).
			Description("Addresses of the Kafka cluster, `host:port`: a list, or one string with commas between. A few brokers are enough; the others are found through them.").
			Example([]any{"localhost:9092"}).
			Example("kafka-1:9092,kafka-2:9092").
			LintRule(`
let bad_type = "bootstrap_servers must be a list of host:port strings, or one comma-separated string"
let entries = if this.type() == "array" { this } else if this.type() == "string" { [ this ] } else { [] }
let bad = $entries.filter(e -> e.type() != "string")
let parts = if $bad.length() == 0 {
  $entries.map_each(e -> e.split(",")).flatten().map_each(e -> e.trim()).filter(e -> e != "")
} else { [] }
let wrong = $parts.filter(e -> !e.re_match("^(\\[[^\\]]+\\]|[^:/\\[\\]\\s]+):[0-9]{1,5}$"))
root = if !["array", "string"].contains(this.type()) || $bad.length() > 0 {
  $bad_type
} else if $parts.length() == 0 {
  "bootstrap_servers names no address; write at least one host:port"
} else {
  $wrong.map_each(e -> "bootstrap_servers: %q is not host:port".format(e))
}`),
	}
}

// ConnectionFromConfig returns the connection settings of a component whose spec has ConnectionFields.
func ConnectionFromConfig(conf *service.ParsedConfig) (kafkaclient.Config, error) {
	value, err := conf.FieldAny(fieldBootstrapServers)
	if err != nil {
		return kafkaclient.Config{}, err
	}
	var entries []string
	switch v := value.(type) {
	case string:
		entries = []string{v}
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return kafkaclient.Config{}, fmt.Errorf("%s: %v is not a host:port string", fieldBootstrapServers, e)
			}
			entries = append(entries, s)
		}
	default:
		return kafkaclient.Config{}, fmt.Errorf(
			"%s: %v is neither a list of host:port strings nor one comma-separated string", fieldBootstrapServers, value)
	}
	servers, err := kafkaclient.ParseBootstrapServers(entries...)
	if err != nil {
		return kafkaclient.Config{}, err
	}
	return kafkaclient.Config{BootstrapServers: servers}, nil
}
