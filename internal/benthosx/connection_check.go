package benthosx

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redpanda-data/benthos/v4/public/bloblang"

	"github.com/tidegate/tidegate/internal/kafkaclient"
)

// What a connection may be is checked by the code that makes one, in lints too: a lint rule is a mapping that calls it.
// It says nothing of files and of empty credentials, which a lint need not have at hand.

// lintMethod is the name of the method that lint rules call. It does not appear in the list of methods.
const lintMethod = "kafka_flink_connection_lint"

// check is one of the checks of raw config, as YAML has it.
type check string

const (
	checkBootstrapServers check = "bootstrap_servers"
	checkTLS              check = "tls"
	checkSASL             check = "sasl"
	checkProperties       check = "properties"
	checkTogether         check = "together"
)

func init() {
	bloblang.MustRegisterMethodV2(lintMethod, bloblang.NewPluginSpec().Deprecated().
		Description("Checks connection settings of Kafka components; for lint rules.").
		Param(bloblang.NewStringParam("what")).Param(bloblang.NewStringParam("side")),
		func(args *bloblang.ParsedParams) (bloblang.Method, error) {
			what, err := args.GetString("what")
			if err != nil {
				return nil, err
			}
			side, err := args.GetString("side")
			if err != nil {
				return nil, err
			}
			return func(v any) (any, error) { return lints(check(what).errors(sides[side], v)), nil }, nil
		})
}

var sides = map[string]kafkaclient.Side{kafkaclient.Source.String(): kafkaclient.Source, kafkaclient.Sink.String(): kafkaclient.Sink}

func lintRule(what check, side kafkaclient.Side) string { return "root = " + lintCall(what, side) }

func lintCall(what check, side kafkaclient.Side) string {
	return fmt.Sprintf("this.%s(%q, %q)", lintMethod, string(what), side.String())
}

// ConnectionLint is an expression of Benthos's mapping language for the lint rule of a spec that has ConnectionFields: a
// list of what contradicts itself in the connection.
func ConnectionLint(side kafkaclient.Side) string { return lintCall(checkTogether, side) }

// lints leaves out what Benthos itself says as well: that a name is unknown, where that is all there is to say.
func lints(errs []error) []any {
	out := []any{}
	for _, err := range flatten(errs) {
		if unknown, ok := errors.AsType[*kafkaclient.UnknownPropertyError](err); ok && unknown.Near == "" {
			continue
		}
		out = append(out, err.Error())
	}
	return out
}

// flatten takes joined errors apart, so that each is a line.
func flatten(errs []error) (out []error) {
	for _, err := range errs {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			out = append(out, flatten(joined.Unwrap())...)
		} else if err != nil {
			out = append(out, err)
		}
	}
	return out
}

func (c check) errors(side kafkaclient.Side, v any) []error {
	switch c {
	case checkBootstrapServers:
		_, err := bootstrapServers(v)
		return []error{err}
	case checkTLS:
		_, errs := tlsOf(v)
		return errs
	case checkSASL:
		switch v := v.(type) {
		case []any:
			_, errs := saslOf(v)
			return errs
		case map[string]any: // Benthos calls a list's rule for each of its entries too
			return misspeltLogin(v)
		}
		return nil
	case checkProperties:
		given, ok := v.(map[string]any)
		if !ok {
			return []error{fmt.Errorf("properties: %v is not a map of names and values", v)}
		}
		_, errs := kafkaclient.NewProperties(side, given)
		return errs
	case checkTogether:
		raw, _ := v.(map[string]any)
		_, errs := connection(side, raw)
		return errs
	}
	return nil
}

// connection is what the raw fields of a component say together. Its errors are those that no field has by itself.
func connection(side kafkaclient.Side, raw map[string]any) (kafkaclient.Config, []error) {
	var c kafkaclient.Config
	c.BootstrapServers, _ = bootstrapServers(raw[fieldBootstrapServers])
	c.Security.TLS, _ = tlsOf(raw[fieldTLS])
	c.Security.SASL, _ = saslOf(raw[fieldSASL])
	given, _ := raw[fieldProperties].(map[string]any)
	c.Properties, _ = kafkaclient.NewProperties(side, given)
	c.ClientID = c.Properties.Text("client.id")
	merged, err := c.Security.Merge(c.Properties)
	c.Security = merged
	return c, flatten([]error{err, c.Properties.Together()})
}

// checkFields are the errors that the raw fields have each by itself.
func checkFields(side kafkaclient.Side, raw map[string]any) (errs []error) {
	for _, c := range []check{checkBootstrapServers, checkTLS, checkSASL, checkProperties} {
		if v, ok := raw[string(c)]; ok {
			errs = append(errs, c.errors(side, v)...)
		}
	}
	if _, ok := raw[fieldBootstrapServers]; !ok {
		_, err := bootstrapServers(nil)
		errs = append(errs, err)
	}
	return flatten(errs)
}

func bootstrapServers(value any) ([]string, error) {
	var entries []string
	switch v := value.(type) {
	case nil:
	case string:
		entries = []string{v}
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("%s: %s is not a host:port string", fieldBootstrapServers, shown(e))
			}
			entries = append(entries, s)
		}
	default:
		return nil, fmt.Errorf("%s: %s is neither a list of host:port strings nor one comma-separated string",
			fieldBootstrapServers, shown(value))
	}
	return kafkaclient.ParseBootstrapServers(entries...)
}

// shown is a value of the wrong type for a message: what may be credentials is not shown (rule 13).
func shown(value any) string {
	if text := fmt.Sprint(value); !strings.Contains(text, "@") {
		return text
	}
	return "an entry with an @ in it"
}

// object reads the fields of a raw object; what has another type than it should Benthos's own lints name.
type object map[string]any

func (o object) text(name string) string {
	s, _ := o[name].(string)
	return s
}

func (o object) on(name string) bool {
	b, _ := o[name].(bool)
	return b
}

// tlsOf returns nil where connections are not encrypted.
func tlsOf(value any) (*kafkaclient.TLS, []error) {
	given, _ := value.(map[string]any)
	o := object(given)
	t := &kafkaclient.TLS{
		ServerName: strings.TrimSpace(o.text("server_name")), SkipVerify: o.on("skip_cert_verify"), Renegotiation: o.on("enable_renegotiation"),
	}
	var errs []error
	switch {
	case o.text("root_cas") != "" && o.text("root_cas_file") != "":
		errs = append(errs, errors.New("tls.root_cas and tls.root_cas_file say the same thing; remove one of them"))
	case o.text("root_cas") != "":
		t.RootCAs = []kafkaclient.Material{{Field: "tls.root_cas", Text: kafkaclient.NewSecret(o.text("root_cas"))}}
	case o.text("root_cas_file") != "":
		t.RootCAs = []kafkaclient.Material{{Field: "tls.root_cas_file", File: o.text("root_cas_file")}}
	}
	list, _ := o["client_certs"].([]any)
	for i, entry := range list {
		given, _ := entry.(map[string]any)
		cert, err := clientCert(fmt.Sprintf("tls.client_certs.%d", i), given)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.ClientCerts = append(t.ClientCerts, cert)
	}
	if o.on("enabled") {
		return t, errs
	}
	if idle := idleTLS(o); len(idle) > 0 {
		errs = append(errs, fmt.Errorf("%s: no effect without tls.enabled: true; set it, or remove what is beside it", strings.Join(idle, ", ")))
	}
	return nil, errs
}

// idleTLS are the settings that have no effect while TLS is off: who writes them down relies on them.
func idleTLS(o object) []string {
	var idle []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		list, isList := o[name].([]any)
		if name != "enabled" && (o.text(name) != "" || o.on(name) || isList && len(list) > 0) {
			idle = append(idle, "tls."+name)
		}
	}
	return idle
}

func clientCert(path string, o object) (kafkaclient.ClientCert, error) {
	c := kafkaclient.ClientCert{
		Cert:     kafkaclient.Material{Field: path + ".cert_file", File: o.text("cert_file")},
		Key:      kafkaclient.Material{Field: path + ".key_file", File: o.text("key_file")},
		Password: kafkaclient.NewSecret(o.text("password")), PasswordField: path + ".password",
	}
	inline := o.text("cert") != "" || o.text("key") != ""
	files := c.Cert.File != "" || c.Key.File != ""
	switch {
	case inline && files:
		return c, fmt.Errorf("%s: either cert and key, or cert_file and key_file, not both", path)
	case inline:
		c.Cert = kafkaclient.Material{Field: path + ".cert", Text: kafkaclient.NewSecret(o.text("cert"))}
		c.Key = kafkaclient.Material{Field: path + ".key", Text: kafkaclient.NewSecret(o.text("key"))}
		if c.Cert.Text.Empty() || c.Key.Text.Empty() {
			return c, fmt.Errorf("%s: cert and key go together; one of them is empty", path)
		}
	case c.Cert.File == "" || c.Key.File == "":
		return c, fmt.Errorf("%s: cert_file and key_file go together; one of them is empty", path)
	}
	return c, nil
}

// misspeltLogin names what an unknown field of an entry of sasl was likely meant to be. That it is unknown Benthos says.
func misspeltLogin(entry map[string]any) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		meant := map[string]string{
			"user": "username", "user_name": "username", "userName": "username", "login": "username",
			"pass": "password", "passwd": "password", "secret": "password",
			"mechanisms": "mechanism", "type": "mechanism",
		}[name]
		if meant != "" {
			errs = append(errs, fmt.Errorf("sasl: there is no field %s; did you mean %s?", name, meant))
		}
	}
	return errs
}

func saslOf(value any) ([]kafkaclient.SASL, []error) {
	list, _ := value.([]any)
	var out []kafkaclient.SASL
	var errs []error
	for i, entry := range list {
		given, _ := entry.(map[string]any)
		o := object(given)
		path := fmt.Sprintf("sasl.%d", i)
		name := o.text("mechanism")
		if strings.EqualFold(name, kafkaclient.MechanismNone) {
			continue
		}
		mechanism, err := kafkaclient.KnownMechanism(name)
		if err != nil {
			// Without one at all it is Benthos that says so.
			if _, there := o["mechanism"]; there {
				errs = append(errs, fmt.Errorf("%s.mechanism: %w", path, err))
			}
			continue
		}
		out = append(out, kafkaclient.SASL{
			Mechanism: mechanism, Username: o.text("username"), Password: kafkaclient.NewSecret(o.text("password")), Field: path,
		})
	}
	if len(out) > 1 {
		errs = append(errs, fmt.Errorf("sasl: there are %d entries, and one is all there can be: brokers hang up on a mechanism that "+
			"they do not offer, so that no other one can be tried", len(out)))
	}
	return out, errs
}
