package security

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/tests/realkafka"
)

const (
	trusted  = "tls: { enabled: true, root_cas_file: '{CA}' }\n"
	stranger = "tls: { enabled: true, root_cas_file: '{STRANGER_CA}' }\n"
)

func login(mechanism, user, password string) string {
	return "sasl: [ { mechanism: " + mechanism + ", username: " + user + ", password: '" + password + "' } ]\n"
}

// TestWrongSettingsEndTheStartWithTheirCause: what a listener refuses is never tried for ever (rule 13).
func TestWrongSettingsEndTheStartWithTheirCause(t *testing.T) {
	cluster := realkafka.SharedSecure(t)
	for name, tc := range map[string]struct {
		listener, connection string
		want                 []string
	}{
		"wrong password, PLAIN": {realkafka.SASLSSL, trusted + login("PLAIN", "alice", "hunter3"),
			[]string{"SASL_AUTHENTICATION_FAILED", `sasl.0: user "alice" was not let in with PLAIN: the brokers do not know this user`}},
		"wrong password, SCRAM-SHA-256": {realkafka.SASLSSL, trusted + login("SCRAM-SHA-256", "alice", "hunter3"),
			[]string{"SASL_AUTHENTICATION_FAILED", `sasl.0: user "alice" was not let in with SCRAM-SHA-256: the brokers do not know this user`}},
		"wrong password, SCRAM-SHA-512": {realkafka.SASLPlaintext, login("SCRAM-SHA-512", "alice", "hunter3"),
			[]string{"SASL_AUTHENTICATION_FAILED", `sasl.0: user "alice" was not let in with SCRAM-SHA-512: the brokers do not know this user`}},
		"unknown user": {realkafka.SASLSSL, trusted + login("SCRAM-SHA-512", "mallory", "hunter3"),
			[]string{"SASL_AUTHENTICATION_FAILED", `sasl.0: user "mallory" was not let in with SCRAM-SHA-512: the brokers do not know this user`}},
		"mechanism that is not enabled": {realkafka.ScramOnly, trusted + login("PLAIN", "alice", "hunter3"),
			[]string{"sasl.0.mechanism: the listener does not offer PLAIN; it offers SCRAM-SHA-256, SCRAM-SHA-512"}},
		"SASL where nobody logs in": {"", login("SCRAM-SHA-512", "alice", "hunter3"),
			[]string{"the listener does not let anybody log in, and sasl is set"}},
		"SASL where nobody logs in, TLS": {realkafka.TLSOnly, trusted + login("SCRAM-SHA-512", "alice", "hunter3"),
			[]string{"the listener does not let anybody log in, and sasl is set"}},
		"no SASL where it is asked for": {realkafka.SASLPlaintext, "",
			[]string{"the listener wants the client to log in, and sasl is empty", "it offers: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"}},
		"no SASL where it is asked for, TLS": {realkafka.SASLSSL, trusted,
			[]string{"the listener wants the client to log in, and sasl is empty"}},
		"TLS on a plain text port": {"", trusted,
			[]string{"the listener speaks plain text, and TLS is on here"}},
		"TLS and SASL on a plain text port": {realkafka.SASLPlaintext, trusted + login("PLAIN", "alice", "hunter3"),
			[]string{"the listener speaks plain text, and TLS is on here"}},
		"plain text on a TLS port": {realkafka.TLSOnly, "",
			[]string{"the listener speaks TLS, and TLS is off here: set tls.enabled: true"}},
		"plain text and SASL on a TLS port": {realkafka.SASLSSL, login("PLAIN", "alice", "hunter3"),
			[]string{"the listener speaks TLS, and TLS is off here"}},
		"wrong CA": {realkafka.TLSOnly, stranger,
			[]string{`"CN=test authority", an authority that is not trusted here: set tls.root_cas_file`}},
		"no CA": {realkafka.TLSOnly, "tls: { enabled: true }",
			[]string{`"CN=test authority", an authority that is not trusted here: set tls.root_cas_file`}},
		"certificate for another host": {realkafka.WrongHost, trusted,
			[]string{"the broker's certificate is for kafka.example.com, and not for 127.0.0.1", "set tls.server_name"}},
		"wrong server name": {realkafka.TLSOnly, "tls: { enabled: true, root_cas_file: '{CA}', server_name: other.example.com }",
			[]string{"the broker's certificate is for localhost, 127.0.0.1, and not for other.example.com"}},
		"expired certificate": {realkafka.Expired, trusted,
			[]string{"the broker's certificate is valid from", "renew it"}},
		"no client certificate": {realkafka.SSL, trusted,
			[]string{"the listener wants a certificate of the client (mutual TLS), and there is none: set tls.client_certs"}},
		"client certificate of a stranger": {realkafka.SSL, "tls: { enabled: true, root_cas_file: '{CA}', client_certs: [ { cert_file: '{STRANGER_CERT}', key_file: '{STRANGER_KEY}' } ] }",
			[]string{"the listener does not accept the certificate of tls.client_certs"}},
		"key of another certificate": {realkafka.SSL, "tls: { enabled: true, root_cas_file: '{CA}', client_certs: [ { cert_file: '{CERT}', key_file: '{STRANGER_KEY}' } ] }",
			[]string{"tls.client_certs.0.key_file: ", "does not belong to the certificate of tls.client_certs.0.cert_file: "}},
		"CA file that is not there": {realkafka.TLSOnly, "tls: { enabled: true, root_cas_file: ./ca.pem }",
			[]string{`tls.root_cas_file: "./ca.pem" cannot be read: no such file or directory`}},
		"key file in place of a CA": {realkafka.TLSOnly, "tls: { enabled: true, root_cas_file: '{KEY}' }",
			[]string{"holds no certificate, but PRIVATE KEY"}},
		"wrong password, by properties": {realkafka.SASLSSL, `properties: { security.protocol: SASL_SSL, ssl.truststore.location: '{CA}', sasl.mechanism: SCRAM-SHA-512, sasl.jaas.config: 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="hunter3";' }`,
			[]string{"SASL_AUTHENTICATION_FAILED", `properties.sasl.jaas.config: user "alice" was not let in with SCRAM-SHA-512`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPipeline(t, cluster)
			p.listener, p.connection, p.level = tc.listener, tc.connection, "TRACE"
			began := time.Now()
			j := start(t, p.yaml())
			last := j.fatalLine(t)
			for _, want := range tc.want {
				require.Contains(t, last, want)
			}
			require.Less(t, time.Since(began), limit)
			j.keepsSecrets(t, "hunter3")
		})
	}
}
