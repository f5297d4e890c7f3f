package realkafka

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Listeners of a cluster with Options.Secure, beside PLAINTEXT, which the tests' own tools use.
const (
	// SASLSSL and SASLPlaintext take every User by PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512; SSL takes a client's
	// certificate; TLSOnly takes anybody.
	SASLSSL       = "SASL_SSL"
	SASLPlaintext = "SASL_PLAINTEXT"
	SSL           = "SSL"
	TLSOnly       = "TLSONLY"
	// ScramOnly is SASLSSL without PLAIN.
	ScramOnly = "SCRAMONLY"
	// Expired and WrongHost are TLSOnly with a certificate that has expired, and one for another host.
	Expired   = "EXPIRED"
	WrongHost = "WRONGHOST"
)

// listeners are their security protocols.
var listeners = map[string]string{
	SASLSSL: SASLSSL, SASLPlaintext: SASLPlaintext, SSL: SSL, TLSOnly: SSL, ScramOnly: SASLSSL, Expired: SSL, WrongHost: SSL,
}

// Secure makes a cluster that can also be reached by TLS and SASL.
type Secure struct {
	// Users are names and passwords, the same for every mechanism.
	Users map[string]string
	// Listeners are those there are; nil: SASLSSL alone.
	Listeners []string
	// Authorizer lets users do only what ACLs allow; PLAINTEXT may do everything.
	Authorizer bool
}

func (s *Secure) listeners() []string {
	if s == nil {
		return nil
	}
	if s.Listeners == nil {
		return []string{SASLSSL}
	}
	return s.Listeners
}

// properties are those of a broker, beside its listeners.
func (s *Secure) properties(certs *Certs) map[string]string {
	const plain, scram = "org.apache.kafka.common.security.plain.PlainLoginModule", "org.apache.kafka.common.security.scram.ScramLoginModule"
	all := map[string]string{
		"ssl.keystore.type": "PEM", "ssl.keystore.location": certs.broker,
		"ssl.truststore.type": "PEM", "ssl.truststore.location": certs.CA,
		"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
	}
	if s.Authorizer {
		all["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
		all["super.users"] = "User:ANONYMOUS"
	}
	var users strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.Users)) {
		fmt.Fprintf(&users, " user_%s=%q", name, s.Users[name])
	}
	for _, name := range s.listeners() {
		prefix := "listener.name." + strings.ToLower(name) + "."
		switch name {
		case SSL:
			all[prefix+"ssl.client.auth"] = "required"
		case Expired:
			all[prefix+"ssl.keystore.location"] = certs.expired
		case WrongHost:
			all[prefix+"ssl.keystore.location"] = certs.wrongHost
		case ScramOnly:
			all[prefix+"sasl.enabled.mechanisms"] = "SCRAM-SHA-256,SCRAM-SHA-512"
		}
		if listeners[name] != SSL {
			all[prefix+"plain.sasl.jaas.config"] = plain + " required" + users.String() + ";"
			all[prefix+"scram-sha-256.sasl.jaas.config"] = scram + " required;"
			all[prefix+"scram-sha-512.sasl.jaas.config"] = scram + " required;"
		}
	}
	return all
}

// formatArgs make the users known to SCRAM.
func (s *Secure) formatArgs() []string {
	if s == nil {
		return nil
	}
	var args []string
	for _, name := range slices.Sorted(maps.Keys(s.Users)) {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, name, s.Users[name]))
		}
	}
	return args
}

// Certs are the certificates of a cluster with Options.Secure.
func (c *Cluster) Certs() *Certs { return c.certs }

// Listener are the addresses of one of the listeners of a cluster with Options.Secure, separated by commas.
func (c *Cluster) Listener(name string) string {
	addrs := make([]string, len(c.endpoints))
	for i, e := range c.endpoints {
		addrs[i] = fmt.Sprintf("127.0.0.1:%d", e.secure[name].port)
	}
	return strings.Join(addrs, ",")
}

// leaseSecure finds ports for the listeners.
func (s *Secure) leaseSecure() (map[string]*portLease, error) {
	leases := map[string]*portLease{}
	for _, name := range s.listeners() {
		lease, err := leasePort()
		if err != nil {
			for _, l := range leases {
				l.release()
			}
			return nil, err
		}
		leases[name] = lease
	}
	return leases, nil
}
