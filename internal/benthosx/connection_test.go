package benthosx

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// probe is a component that has nothing but a connection.
type probe struct {
	spec *service.ConfigSpec
	env  *service.Environment
}

func newProbe(t *testing.T, side kafkaclient.Side) probe {
	t.Helper()
	p := probe{
		spec: service.NewConfigSpec().Fields(ConnectionFields(side)...).LintRule("root = " + ConnectionLint(side)),
		env:  service.NewEnvironment(),
	}
	require.NoError(t, p.env.RegisterBatchInput("probe", p.spec,
		func(*service.ParsedConfig, *service.Resources) (service.BatchInput, error) { return nil, nil }))
	return p
}

func (p probe) lint(t *testing.T, yaml string) []string {
	t.Helper()
	lints, err := p.env.NewComponentConfigLinter().LintInputYAML([]byte("probe:\n  " + strings.ReplaceAll(yaml, "\n", "\n  ")))
	require.NoError(t, err)
	var out []string
	for _, l := range lints {
		out = append(out, l.What)
	}
	slices.Sort(out)
	return out
}

func (p probe) parse(yaml string, side kafkaclient.Side) (kafkaclient.Config, error) {
	conf, err := p.spec.ParseYAML(yaml, p.env)
	if err != nil {
		return kafkaclient.Config{}, err
	}
	return ConnectionFromConfig(conf, side)
}

func TestConnectionFromConfig(t *testing.T) {
	p := newProbe(t, kafkaclient.Source)
	for _, tc := range []struct {
		name, yaml string
		want       []string
		lint, err  string
	}{
		{name: "list", yaml: `bootstrap_servers: [ "a:9092", "b:9092" ]`, want: []string{"a:9092", "b:9092"}},
		{name: "one string", yaml: `bootstrap_servers: "a:9092, b:9092,"`, want: []string{"a:9092", "b:9092"}},
		{name: "strings with commas in a list", yaml: `bootstrap_servers: [ "a:9092,[::1]:9092" ]`, want: []string{"a:9092", "[::1]:9092"}},
		{name: "missing port", yaml: `bootstrap_servers: [ "a:9092", "kafka-2" ]`, lint: `"kafka-2" has no port; write host:port, such as kafka-2:9092`},
		{name: "empty", yaml: `bootstrap_servers: ""`, lint: "no address given"},
		{name: "empty list", yaml: `bootstrap_servers: []`, lint: "no address given"},
		{name: "scheme", yaml: `bootstrap_servers: "SSL://a:9092"`, lint: "write host:port alone"},
		{name: "number", yaml: `bootstrap_servers: 9092`, lint: "neither a list"},
		{name: "list of numbers", yaml: `bootstrap_servers: [ 9092 ]`, lint: "is not a host:port string"},
		{name: "map", yaml: `bootstrap_servers: { a: 9092 }`, lint: "neither a list"},
		{name: "left out", yaml: `{}`, lint: "field bootstrap_servers is required", err: "bootstrap_servers"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lints := p.lint(t, tc.yaml)
			got, err := p.parse(tc.yaml, kafkaclient.Source)
			if tc.lint != "" {
				require.Len(t, lints, 1)
				require.Contains(t, lints[0], tc.lint)
				if tc.err == "" {
					tc.err = tc.lint
				}
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.Empty(t, lints)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.BootstrapServers)
		})
	}
}

// TestWrongSecurityIsRefusedByItsField: a lint says what a start says. What only a start can know has start alone.
func TestWrongSecurityIsRefusedByItsField(t *testing.T) {
	const jaas = `org.apache.kafka.common.security.plain.PlainLoginModule required username=\"u\" password=\"hunter2\";`
	for name, tc := range map[string]struct {
		yaml, want, start, servers string
		lints                      int // of one fault, 1 unless told
	}{
		"mechanism unknown":       {yaml: "sasl: [ { mechanism: SCRAM, username: u, password: hunter2 } ]", want: `sasl.0.mechanism: "SCRAM" is no mechanism; write SCRAM-SHA-256 or SCRAM-SHA-512`},
		"mechanism of later":      {yaml: "sasl: [ { mechanism: GSSAPI } ]", want: "sasl.0.mechanism: GSSAPI is not supported yet; there are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"},
		"two entries":             {yaml: "sasl: [ { mechanism: PLAIN, username: u, password: hunter2 }, { mechanism: SCRAM-SHA-256, username: u, password: hunter2 } ]", want: "sasl: there are 2 entries, and one is all there can be"},
		"no password":             {yaml: "sasl: [ { mechanism: PLAIN, username: u } ]", start: "sasl.0: the password is empty; if it comes from an environment variable, is that set?"},
		"no user":                 {yaml: "sasl: [ { mechanism: PLAIN, password: hunter2 } ]", start: "sasl.0: the user name is empty"},
		"user misspelt":           {yaml: "sasl: [ { mechanism: PLAIN, password: hunter2, user: u } ]", want: "sasl: there is no field user; did you mean username?", lints: 2},
		"address with a login":    {servers: "u:hunter2@a:9092", want: "bootstrap_servers: an entry has an @ in it"},
		"tls off with a CA":       {yaml: "tls: { root_cas_file: ca.pem }", want: "tls.root_cas_file: no effect without tls.enabled: true"},
		"tls in words":            {yaml: "tls: { enabled: sure }", want: `tls.enabled: "sure" is neither true nor false`},
		"two CAs":                 {yaml: "tls: { enabled: true, root_cas_file: ca.pem, root_cas: x }", want: "tls.root_cas and tls.root_cas_file say the same thing"},
		"half a client cert":      {yaml: "tls: { enabled: true, client_certs: [ { cert_file: a.pem } ] }", want: "tls.client_certs.0: cert_file and key_file go together"},
		"both kinds of cert":      {yaml: "tls: { enabled: true, client_certs: [ { cert_file: a.pem, key: x } ] }", want: "tls.client_certs.0: either cert and key, or cert_file and key_file, not both"},
		"CA file is not there":    {yaml: "tls: { enabled: true, root_cas_file: ./nowhere/ca.pem }", start: `tls.root_cas_file: "./nowhere/ca.pem" cannot be read: no such file or directory`},
		"protocol against tls":    {yaml: "tls: { enabled: true }\nproperties: { security.protocol: PLAINTEXT }", want: "properties.security.protocol: PLAINTEXT is without TLS, and tls.enabled is true"},
		"protocol against sasl":   {yaml: "sasl: [ { mechanism: PLAIN, username: u, password: hunter2 } ]\nproperties: { security.protocol: SSL }", want: "properties.security.protocol: SSL is without SASL"},
		"protocol without login":  {yaml: "properties: { security.protocol: SASL_SSL }", want: "properties.security.protocol: SASL_SSL needs properties.sasl.jaas.config or the field sasl"},
		"two logins":              {yaml: "sasl: [ { mechanism: PLAIN, username: u, password: hunter2 } ]\nproperties: { security.protocol: SASL_SSL, sasl.jaas.config: \"" + jaas + "\" }", want: "properties.sasl.jaas.config: it and the field sasl say the same thing"},
		"login without protocol":  {yaml: "properties: { sasl.jaas.config: \"" + jaas + "\" }", want: "properties.sasl.jaas.config: it has no effect without properties.security.protocol SASL_SSL"},
		"module and mechanism":    {yaml: "properties: { security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-256, sasl.jaas.config: \"" + jaas + "\" }", want: "properties.sasl.mechanism: SCRAM-SHA-256 does not go with PlainLoginModule"},
		"trust store without ssl": {yaml: "properties: { ssl.truststore.location: ca.pem }", want: "properties.ssl.truststore.location: it has no effect without properties.security.protocol SSL or SASL_SSL"},
		"trust store of Java":     {yaml: "properties: { security.protocol: SSL, ssl.truststore.type: JKS }", want: `properties.ssl.truststore.type: "JKS" is not supported: key stores have to be in PEM`},
		"store password":          {yaml: "properties: { ssl.truststore.password: hunter2 }", want: "properties.ssl.truststore.password: a key store in PEM has no password"},
		"number too large":        {yaml: "properties: { request.timeout.ms: 99999999 }", want: "properties.request.timeout.ms: 99999999 is not between 100 and 900000"},
		"number in words":         {yaml: "properties: { request.timeout.ms: 5s }", want: `properties.request.timeout.ms: "5s" is not a whole number of milliseconds, such as 500`},
		"number with a fraction":  {yaml: "properties: { max.poll.records: 1.5 }", want: `properties.max.poll.records: "1.5" is not a whole number`},
		"list":                    {yaml: "properties: { max.poll.records: [ 1 ] }", want: "properties.max.poll.records: it has to be one value"},
		"of the other side":       {yaml: "properties: { linger.ms: 5 }", want: "properties.linger.ms: it is for a sink, and this is a source"},
		"of a field":              {yaml: "properties: { group.id: x }", want: "properties.group.id: it is set by the field group_id"},
		"of Java":                 {yaml: "properties: { interceptor.classes: x }", want: "properties.interceptor.classes: it names Java code"},
		"smaller than its least":  {yaml: "properties: { retry.backoff.ms: 500, retry.backoff.max.ms: 100 }", want: "properties.retry.backoff.ms: 500 is more than properties.retry.backoff.max.ms, 100"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProbe(t, kafkaclient.Source)
			yaml := "bootstrap_servers: " + cmp.Or(tc.servers, "a:9092") + "\n" + tc.yaml
			lints := p.lint(t, yaml)
			_, err := p.parse(yaml, kafkaclient.Source)
			if tc.want == "" {
				require.Empty(t, lints)
				require.ErrorContains(t, err, tc.start)
			} else {
				require.Len(t, lints, cmp.Or(tc.lints, 1), "one lint for one fault: %q", lints)
				require.Contains(t, lints[len(lints)-1], tc.want)
				if name != "tls in words" && tc.lints == 0 { // the component's own reading of the field is
					require.ErrorContains(t, err, tc.want)
				}
			}
			require.NotContains(t, strings.Join(lints, "\n"), "hunter2", "rule 13")
			if err != nil {
				require.NotContains(t, err.Error(), "hunter2", "rule 13")
			}
		})
	}
}

func TestMisspeltPropertyIsToldItsName(t *testing.T) {
	p := newProbe(t, kafkaclient.Sink)
	for given, want := range map[string]string{
		"linger.mss": "linger.ms", "lingerms": "linger.ms", "linger_ms": "linger.ms", "properties.linger.ms": "linger.ms",
		"compresion.type": "compression.type", "delivery.timeout": "delivery.timeout.ms", "transactional.idd": "transactional.id",
	} {
		lints := p.lint(t, "bootstrap_servers: a:9092\nproperties: { "+given+": 5 }")
		require.Equal(t, []string{"field " + given + " not recognised",
			"properties." + given + ": there is no such property; did you mean " + want + "?"}, lints)
		_, err := p.parse("bootstrap_servers: a:9092\nproperties: { "+given+": 5 }", kafkaclient.Sink)
		require.ErrorContains(t, err, "did you mean "+want+"?")
	}
	require.Equal(t, []string{"field nothing.like.it not recognised"}, p.lint(t, "bootstrap_servers: a:9092\nproperties: { nothing.like.it: 5 }"))
	_, err := p.parse("bootstrap_servers: a:9092\nproperties: { nothing.like.it: 5 }", kafkaclient.Sink)
	require.ErrorContains(t, err, "properties.nothing.like.it: there is no such property; docs/connection.md lists all there are")
}

func TestSecurityReachesTheConfig(t *testing.T) {
	plain := kafkaclient.SASL{Mechanism: "PLAIN", Username: "u", Password: kafkaclient.NewSecret("hunter2")}
	for name, tc := range map[string]struct {
		yaml string
		sasl []kafkaclient.SASL
		tls  *kafkaclient.TLS
	}{
		"nothing":       {yaml: "{}"},
		"sasl":          {yaml: "sasl: [ { mechanism: plain, username: u, password: hunter2 } ]", sasl: []kafkaclient.SASL{plain}},
		"none":          {yaml: "sasl: [ { mechanism: none } ]"},
		"tls":           {yaml: "tls: { enabled: true, server_name: kafka }", tls: &kafkaclient.TLS{ServerName: "kafka"}},
		"properties":    {yaml: `properties: { security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.jaas.config: 'PlainLoginModule required username="u" password="hunter2";', ssl.endpoint.identification.algorithm: "" }`, sasl: []kafkaclient.SASL{plain}, tls: &kafkaclient.TLS{AnyName: true}},
		"both, agreed":  {yaml: "tls: { enabled: true }\nsasl: [ { mechanism: PLAIN, username: u, password: hunter2 } ]\nproperties: { security.protocol: SASL_SSL }", sasl: []kafkaclient.SASL{plain}, tls: &kafkaclient.TLS{}},
		"SSL by a name": {yaml: "properties: { security.protocol: ssl }", tls: &kafkaclient.TLS{}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProbe(t, kafkaclient.Sink)
			yaml := "bootstrap_servers: a:9092\n" + strings.TrimPrefix(tc.yaml, "{}")
			require.Empty(t, p.lint(t, yaml))
			c, err := p.parse(yaml, kafkaclient.Sink)
			require.NoError(t, err)
			for i := range c.Security.SASL {
				c.Security.SASL[i].Field = ""
			}
			require.Len(t, c.Security.SASL, len(tc.sasl))
			if len(tc.sasl) > 0 {
				require.Equal(t, tc.sasl, c.Security.SASL)
			}
			require.Equal(t, tc.tls, c.Security.TLS)
		})
	}
}
