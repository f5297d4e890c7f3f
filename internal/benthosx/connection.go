package benthosx

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/tidegate/tidegate/internal/kafkaclient"
)

const (
	fieldBootstrapServers = "bootstrap_servers"
	fieldTLS              = "tls"
	fieldSASL             = "sasl"
	fieldProperties       = "properties"
)

// ConnectionFields are the config fields of a Kafka connection, shared by source and sink. A component that has them calls
// ConnectionLint in the lint rule of its spec, for what no field can tell by itself.
func ConnectionFields(side kafkaclient.Side) []*service.ConfigField {
	return []*service.ConfigField{
		// Any, since Benthos's own lists refuse Kafka's usual form, one comma-separated string.
		service.NewAnyField(fieldBootstrapServers).
			Description("Addresses of the Kafka cluster, `host:port`: a list, or one string with commas between. A few brokers are enough; the others are found through them.").
			// A text first: of a list, `create` prints the remark that it is required at the field behind it.
			Example("localhost:9092").
			Example([]any{"kafka-1:9092", "kafka-2:9092"}).
			LintRule(lintRule(checkBootstrapServers, side)),
		tlsField(side),
		saslField(side),
		propertiesField(side),
	}
}

func tlsField(side kafkaclient.Side) *service.ConfigField {
	path := func(name string) string { return fieldTLS + "." + name }
	return service.NewObjectField(fieldTLS,
		BoolField(path("enabled"), "enabled", false, "Whether connections are encrypted, true or false."),
		BoolField(path("skip_cert_verify"), "skip_cert_verify", false,
			"Whether any certificate is taken, true or false: whoever is in between can read and change everything. For trying things out."),
		BoolField(path("enable_renegotiation"), "enable_renegotiation", false,
			"Whether the broker may ask for a renegotiation, true or false. Kafka's own do not."),
		service.NewStringField("server_name").Default("").
			Description("The name that the brokers' certificates are for, where it is not the host that is connected to."),
		service.NewStringField("root_cas").Default("").Secret().
			Description("The authorities that brokers' certificates may be signed by, in PEM. Empty, as `root_cas_file`: those of the system."),
		service.NewStringField("root_cas_file").Default("").Example("./ca.pem").
			Description("A file with these authorities."),
		service.NewObjectListField("client_certs",
			service.NewStringField("cert").Default("").Description("The certificate, and those that it is signed by, in PEM."),
			service.NewStringField("key").Default("").Secret().Description("The private key, in PEM."),
			service.NewStringField("cert_file").Default("").Description("A file with the certificate."),
			service.NewStringField("key_file").Default("").Description("A file with the private key."),
			service.NewStringField("password").Default("").Secret().Description("Opens an encrypted private key. In quotes, `\"${KEY_PASSWORD}\"`."),
		).Default([]any{}).Example([]any{map[string]any{"cert_file": "./client.pem", "key_file": "./client.key"}}).
			Description("Certificates that the client shows to brokers that ask for one (mutual TLS). Either `cert` and `key`, or `cert_file` and `key_file`."),
	).Description("Encrypted connections, as elsewhere in Benthos.").Advanced().LintRule(lintRule(checkTLS, side))
}

func saslField(side kafkaclient.Side) *service.ConfigField {
	return service.NewObjectListField(fieldSASL,
		service.NewStringField("mechanism").
			Description("PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; `none` for an entry that is to have no effect."),
		service.NewStringField("username").Default("").Description("The user name."),
		service.NewStringField("password").Default("").Secret().
			// No example: Benthos prints one without quotes, and the variable is pasted as YAML text.
			Description("The password, in quotes, `\"${KAFKA_PASSWORD}\"`: the variable is pasted as YAML text."),
	).Default([]any{}).Advanced().
		Description("How the client logs in. A list, as elsewhere, with one entry: `sasl: [ { mechanism: SCRAM-SHA-512, username: orders, password: \"${KAFKA_PASSWORD}\" } ]`.").
		LintRule(lintRule(checkSASL, side))
}

func propertiesField(side kafkaclient.Side) *service.ConfigField {
	var fields []*service.ConfigField
	for _, p := range kafkaclient.PropertyTable() {
		if p.Sides&side == 0 {
			continue
		}
		if p.Secret {
			// As a string it is hidden when Benthos shows the config.
			fields = append(fields, service.NewStringField(p.Name).Optional().Secret().Description(p.Effect))
			continue
		}
		field := service.NewAnyField(p.Name).Optional().
			Description(fmt.Sprintf("%s One of: %s. Default: %s.", p.Effect, p.Takes(), p.Default))
		if !strings.Contains(p.Default, " ") && p.Default != "none" {
			field = field.Example(p.Default) // which `create` prints in place of null
		}
		fields = append(fields, field)
	}
	// Known to Benthos, so that it is our rule alone that says why they are refused.
	for _, name := range slices.Sorted(maps.Keys(kafkaclient.RefusedProperties())) {
		fields = append(fields, service.NewAnyField(name).Optional().Deprecated())
	}
	for _, p := range kafkaclient.PropertyTable() {
		if p.Sides&side == 0 {
			fields = append(fields, service.NewAnyField(p.Name).Optional().Deprecated())
		}
	}
	return service.NewObjectField(fieldProperties, fields...).Optional().Advanced().
		Description("Kafka's own client properties, by Kafka's names. They win over the defaults; what another field sets is refused here. See docs/connection.md.").
		LintRule(lintRule(checkProperties, side))
}

// ConnectionFromConfig returns the connection settings of a component whose spec has ConnectionFields. It reads
// certificates and keys.
func ConnectionFromConfig(conf *service.ParsedConfig, side kafkaclient.Side) (kafkaclient.Config, error) {
	raw := map[string]any{}
	for _, name := range []string{fieldBootstrapServers, fieldTLS, fieldSASL, fieldProperties} {
		if !conf.Contains(name) {
			continue
		}
		value, err := conf.FieldAny(name)
		if err != nil {
			return kafkaclient.Config{}, err
		}
		raw[name] = value
	}
	c, errs := connection(side, raw)
	errs = append(checkFields(side, raw), errs...)
	if len(errs) > 0 {
		return kafkaclient.Config{}, errors.Join(errs...)
	}
	return c.Secured()
}
