package kafkaclient

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	propProtocol = "security.protocol"
	propStore    = "ssl.keystore.location"
	propChain    = "ssl.keystore.certificate.chain"
	propKey      = "ssl.keystore.key"
	propTrust    = "ssl.truststore.location"
	propCAs      = "ssl.truststore.certificates"
	propNames    = "ssl.endpoint.identification.algorithm"
	propKeyWord  = "ssl.key.password"
)

// Security is how the client speaks to brokers, and as whom.
type Security struct {
	// TLS is nil for plain text.
	TLS *TLS
	// SASL has one entry, or none where the client does not log in.
	SASL []SASL
}

// Merge adds what Kafka's own properties say to what the fields `tls` and `sasl` say. Where both say something they have
// to agree. It reads no file.
func (s Security) Merge(p Properties) (Security, error) {
	protocol := p.Text(propProtocol)
	wantsTLS, wantsSASL := strings.HasSuffix(protocol, "SSL"), strings.HasPrefix(protocol, "SASL_")
	var errs []error
	fail := func(name, format string, args ...any) {
		errs = append(errs, fmt.Errorf("properties."+name+": "+format, args...))
	}
	if protocol != "" && !wantsTLS && s.TLS != nil {
		fail(propProtocol, "%s is without TLS, and tls.enabled is true; remove one of them", protocol)
	}
	if protocol != "" && !wantsSASL && len(s.SASL) > 0 {
		fail(propProtocol, "%s is without SASL, and the field sasl is set; remove one of them", protocol)
	}
	given := s
	if wantsTLS || hasAny(p, "ssl.") {
		switch name := firstOf(p, "ssl."); {
		case name != "" && given.TLS != nil:
			fail(name, "it and the field tls say the same thing; remove one of them")
		case name != "" && !wantsTLS:
			fail(name, "it has no effect without properties.%s SSL or SASL_SSL; set that, or remove it", propProtocol)
		case given.TLS == nil:
			s.TLS = p.tls(fail)
		}
	}
	switch name := firstOf(p, "sasl."); {
	case name != "" && len(given.SASL) > 0:
		fail(name, "it and the field sasl say the same thing; remove one of them")
	case name != "" && !wantsSASL:
		fail(name, "it has no effect without properties.%s SASL_SSL or SASL_PLAINTEXT; set that, or remove it", propProtocol)
	case wantsSASL && len(given.SASL) == 0:
		login, err := p.sasl()
		if err != nil {
			errs = append(errs, err)
		} else {
			s.SASL = []SASL{login}
		}
	}
	return s, errors.Join(errs...)
}

func (p Properties) sasl() (SASL, error) {
	mechanism := ""
	if p.Has(propMechanism) {
		var err error
		if mechanism, err = KnownMechanism(p.Text(propMechanism)); err != nil {
			return SASL{}, fmt.Errorf("properties.%s: %w", propMechanism, err)
		}
	}
	if !p.Has(propJAAS) {
		return SASL{}, fmt.Errorf("properties.%s: %s needs properties.%s or the field sasl, for user name and password",
			propProtocol, p.Text(propProtocol), propJAAS)
	}
	if p.Text(propJAAS) == "" {
		// An environment variable that is not set yet: the start asks for it, a lint does not.
		return SASL{Mechanism: mechanism, Field: "properties." + propJAAS}, nil
	}
	return parseJAAS(p.Text(propJAAS), mechanism)
}

func (p Properties) tls(fail func(name, format string, args ...any)) *TLS {
	t := &TLS{AnyName: p.Has(propNames) && p.Text(propNames) == ""}
	file := func(name string) Material { return Material{Field: "properties." + name, File: p.Text(name)} }
	inline := func(name string) Material {
		return Material{Field: "properties." + name, Text: NewSecret(p.Text(name))}
	}
	switch {
	case p.Has(propCAs) && p.Has(propTrust):
		fail(propTrust, "it and properties.%s say the same thing; remove one of them", propCAs)
	case p.Text(propTrust) != "":
		t.RootCAs = []Material{file(propTrust)}
	case p.Text(propCAs) != "":
		t.RootCAs = []Material{inline(propCAs)}
	}
	cert := ClientCert{Password: NewSecret(p.Text(propKeyWord)), PasswordField: "properties." + propKeyWord}
	switch {
	case p.Has(propStore) && (p.Has(propChain) || p.Has(propKey)):
		fail(propStore, "it and properties.%s say the same thing; remove one of them", propChain)
	case p.Has(propChain) != p.Has(propKey):
		fail(propChain, "it and properties.%s go together; set both, or none", propKey)
	case p.Text(propStore) != "":
		cert.Cert, cert.Key = file(propStore), file(propStore)
		t.ClientCerts = []ClientCert{cert}
	case p.Text(propChain) != "":
		cert.Cert, cert.Key = inline(propChain), inline(propKey)
		t.ClientCerts = []ClientCert{cert}
	case p.Has(propKeyWord):
		fail(propKeyWord, "there is no private key that it could open; set properties.%s, or remove it", propStore)
	}
	return t
}

func hasAny(p Properties, prefix string) bool { return firstOf(p, prefix) != "" }

// firstOf is the first property that begins with prefix, empty for none.
func firstOf(p Properties, prefix string) string {
	var names []string
	for name := range p.values {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// Principal is the user that the client logs in as, as ACLs name it; empty where it is not known.
func (s Security) Principal() string {
	if len(s.SASL) == 0 {
		return ""
	}
	return "User:" + s.SASL[0].Username
}
