package benthosx

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPasswordsThatAreNoTextToYAMLAreRefusedUnprinted: each form of YAML that a pasted value can turn into.
func TestPasswordsThatAreNoTextToYAMLAreRefusedUnprinted(t *testing.T) {
	const block, quoted = "sasl:\n  - password: ${SECRET_UNDER_TEST}\n", "sasl:\n  - password: \"${SECRET_UNDER_TEST}\"\n"
	for name, tc := range map[string]struct{ yaml, value, want string }{
		"text":                   {yaml: block, value: "hunter2"},
		"text in quotes":         {yaml: quoted, value: "*hunter2: #"},
		"number in quotes":       {yaml: quoted, value: "12345678"},
		"in a flow":              {yaml: "sasl: [ { password: ${SECRET_UNDER_TEST} } ]", value: "hunter2"},
		"elsewhere":              {yaml: "other: { password: ${SECRET_UNDER_TEST} }", value: "12345678"},
		"number":                 {yaml: block, value: "12345678", want: "f.yaml(2,1) sasl.0.password: YAML reads it as a number; put it in quotes"},
		"fraction":               {yaml: block, value: "1.5e3", want: "YAML reads it as a number"},
		"true":                   {yaml: block, value: "true", want: "YAML reads it as true or false"},
		"date":                   {yaml: block, value: "2001-02-03", want: "YAML reads it as a date"},
		"null":                   {yaml: block, value: "null", want: "YAML reads it as null"},
		"unset":                  {yaml: block, value: "", want: "is that set?"},
		"reference":              {yaml: block, value: "*hunter2", want: "put it in quotes"},
		"anchor":                 {yaml: block, value: "&hunter2 x", want: "put it in quotes"},
		"tag":                    {yaml: block, value: "!hunter2", want: "put it in quotes"},
		"list":                   {yaml: block, value: "[hunter2", want: "put it in quotes"},
		"comment":                {yaml: block, value: "hunter2 #", want: "put it in quotes"},
		"end of a flow":          {yaml: "sasl: [ { password: ${SECRET_UNDER_TEST} } ]", value: "hunter2, x", want: "put it in quotes"},
		"client certificate":     {yaml: "tls: { client_certs: [ { password: ${SECRET_UNDER_TEST} } ] }", value: "12345678", want: "tls.client_certs.0.password: YAML reads it as a number"},
		"property":               {yaml: "properties: { ssl.key.password: ${SECRET_UNDER_TEST} }", value: "12345678", want: "properties.ssl.key.password: YAML reads it as a number"},
		"default":                {yaml: "sasl:\n  - password: ${SECRET_UNDER_TEST:12345678}", want: "YAML reads it as a number"},
		"quote in quotes":        {yaml: quoted, value: `hunt"er2`, want: "write a backslash"},
		"backslash in quotes":    {yaml: quoted, value: `hunt\er2 \q`, want: "write a backslash"},
		"quote in single quotes": {yaml: "sasl:\n  - password: '${SECRET_UNDER_TEST}'\n", value: `hunt'er2`, want: "write each ' in it twice"},
		"number in the file":     {yaml: "sasl:\n  - password: 12345678\n", want: "YAML reads it as a number"},
		"reference in the file":  {yaml: "sasl:\n  - password: *hunter2\n", want: "a reference to YAML"},
		"tag in the file":        {yaml: "sasl:\n  - password: !hunter2\n", want: "takes it for a tag"},
		"login as a map":         {yaml: "kafka_flink_sink: { sasl: { password: hunter2 } }", want: "f.yaml(1,1) kafka_flink_sink.sasl: it has to be a list with one entry"},
		"login of Benthos's own": {yaml: "kafka: { sasl: { password: hunter2 } }"},
		"address with a login":   {yaml: "kafka_flink_source: { bootstrap_servers: [ 'u:hunter2@a:9092' ] }", want: "bootstrap_servers: an entry has an @ in it"},
		"address of a variable":  {yaml: "kafka_flink_source:\n  bootstrap_servers: ${SECRET_UNDER_TEST}", value: "u:hunter2@a:9092", want: "bootstrap_servers: an entry has an @ in it"},
		"list in the file":       {yaml: "sasl:\n  - password: [hunter2]\n", want: "has to be a text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SECRET_UNDER_TEST", tc.value)
			errs := secretErrors("f.yaml", tc.yaml)
			if tc.want == "" {
				require.Empty(t, errs)
				return
			}
			require.Len(t, errs, 1)
			require.ErrorContains(t, errs[0], tc.want)
			for _, secret := range []string{"hunt", "12345678", "1.5", "2001"} {
				require.NotContains(t, errs[0].Error(), secret, "rule 13")
			}
		})
	}
}

func TestFilesOfACommandAreThoseThatItsArgumentsName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yml", "c.txt", "readme.md"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	a, b, c := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yml"), filepath.Join(dir, "c.txt")
	require.ElementsMatch(t, []string{a, b}, configFiles([]string{dir + "/..."}))
	require.ElementsMatch(t, []string{a, b}, configFiles([]string{dir}))
	require.ElementsMatch(t, []string{a}, configFiles([]string{filepath.Join(dir, "*.yaml")}))
	require.ElementsMatch(t, []string{c}, configFiles([]string{c}))
	require.Empty(t, configFiles([]string{filepath.Join(dir, "nowhere.yaml")}))
	link := filepath.Join(dir, "link") // as in a volume of Kubernetes
	require.NoError(t, os.Symlink(a, link))
	require.Equal(t, []string{link}, configFiles([]string{link}))
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _, _ = r.Close(), w.Close() }()
	require.Empty(t, configFiles([]string{fmt.Sprintf("/dev/fd/%d", r.Fd())}), "what is read from a pipe Benthos would not get")
}
