package kafkaclient

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJAASAsUsersPasteIt: from Kafka's and Flink's documentation, whose distributions put other packages in front.
func TestJAASAsUsersPasteIt(t *testing.T) {
	const password = "p=a;s\"s w\\o'r$d"
	for name, tc := range map[string]struct{ text, mechanism, user, password, want string }{
		"as in the docs":     {`org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`, "", "u", "p", "PLAIN"},
		"shaded":             {`org.apache.flink.kafka.shaded.org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`, "PLAIN", "u", "p", "PLAIN"},
		"scram":              {`org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";`, "SCRAM-SHA-256", "u", "p", "SCRAM-SHA-256"},
		"no semicolon":       {`PlainLoginModule required username="u" password="p"`, "", "u", "p", "PLAIN"},
		"single quotes":      {`PlainLoginModule required username='u' password='p"q';`, "", "u", `p"q`, "PLAIN"},
		"no quotes":          {`PlainLoginModule required username=u password=p==;`, "", "u", "p==", "PLAIN"},
		"spaces around =":    {`PlainLoginModule required username = "u" password = "p" ;`, "", "u", "p", "PLAIN"},
		"line breaks":        {"PlainLoginModule required\n  username=\"u\"\n  password=\"p\";\n", "", "u", "p", "PLAIN"},
		"everything escaped": {`PlainLoginModule required username="u" password="p=a;s\"s w\\o'r$d";`, "", "u", password, "PLAIN"},
		"in capitals":        {`PlainLoginModule REQUIRED username="u" password="p";`, "", "u", "p", "PLAIN"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseJAAS(tc.text, tc.mechanism)
			require.NoError(t, err)
			require.Equal(t, SASL{Mechanism: tc.want, Username: tc.user, Password: NewSecret(tc.password), Field: "properties.sasl.jaas.config"}, got)
		})
	}
	for name, tc := range map[string]struct{ text, mechanism, want string }{
		"another module":                {`com.example.Krb5LoginModule required password="hunter2";`, "", "login module Krb5LoginModule is not supported"},
		"no module":                     {`username="u" password="hunter2";`, "", "it does not begin with a login module"},
		"no module, the password first": {`password="hunter2" username="u";`, "", "it does not begin with a login module"},
		"a password for an option":      {`ScramLoginModule required username="u" "hunter2"=x;`, "SCRAM-SHA-256", "an option of ScramLoginModule is not supported"},
		"a word":                        {`hunter2`, "", "it has to be a login module"},
		"not required":                  {`PlainLoginModule username="u" password="hunter2";`, "", `after PlainLoginModule there has to be the word "required"`},
		"quote open":                    {`PlainLoginModule required username="u" password="hunter2;`, "", "a quote is not closed"},
		"unquoted semicolon":            {`PlainLoginModule required username=u password=hun;ter2;`, "", "needs quotes"},
		"token":                         {`ScramLoginModule required username="u" password="hunter2" tokenauth="true";`, "SCRAM-SHA-256", "an option of ScramLoginModule is not supported"},
		"scram without":                 {`ScramLoginModule required username="u" password="hunter2";`, "", "properties.sasl.mechanism: required with ScramLoginModule"},
		"other mechanism":               {`PlainLoginModule required username="u" password="hunter2";`, "SCRAM-SHA-512", "SCRAM-SHA-512 does not go with PlainLoginModule"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseJAAS(tc.text, tc.mechanism)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "hunter2", "rule 13")
			require.NotContains(t, err.Error(), "ter2", "rule 13")
		})
	}
}

func TestSecretIsNotPrintedByAccident(t *testing.T) {
	config := Config{Security: Security{
		SASL: []SASL{{Username: "u", Password: NewSecret("hunter2")}},
		TLS:  &TLS{RootCAs: []Material{{Text: NewSecret("hunter2")}}, ClientCerts: []ClientCert{{Password: NewSecret("hunter2")}}},
	}}
	properties, errs := NewProperties(Source, map[string]any{"sasl.jaas.config": "hunter2"})
	require.Empty(t, errs)
	config.Properties = properties
	// fmt calls no methods of what is in an unexported field.
	inside := struct{ config Config }{config}
	var out strings.Builder
	log := slog.New(slog.NewJSONHandler(&out, nil))
	log.Info("x", "config", config, "password", config.Security.SASL[0].Password)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+" "+verb, inside, config, *config.Security.TLS, config.Security.SASL)
	}
	require.NotContains(t, out.String(), "hunter2")
	require.NotContains(t, out.String(), fmt.Sprintf("%x", "hunter2"))
}
