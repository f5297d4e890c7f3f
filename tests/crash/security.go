package crash

import (
	"flag"
	"fmt"
	"strings"

	"github.com/tidegate/tidegate/tests/realkafka"
)

// scramTLS is the one kind of security there is beside none: the pipeline logs in by SCRAM-SHA-512, over TLS. Who writes
// its input and looks at its output goes the open way.
const scramTLS = "scram-tls"

var flagSecurity = flag.String("crash.security", "", "how pipelines connect: "+scramTLS+", or empty for plain text")

// user is who a pipeline is, where it has to say so.
const user = "pipeline"

// withSecurity adds the listener that pipelines are to connect to.
func withSecurity(options realkafka.Options) (realkafka.Options, error) {
	switch *flagSecurity {
	case "":
	case scramTLS:
		options.Secure = &realkafka.Secure{Users: map[string]string{user: realkafka.Password}}
	default:
		return options, fmt.Errorf("-crash.security=%s is not %s", *flagSecurity, scramTLS)
	}
	return options, nil
}

// connection is where a pipeline connects, and what it says there.
type connection struct {
	bootstrap string
	// witness are the addresses for those who look at the cluster.
	witness []string
	// fields are further fields of a source or sink, a line each.
	fields []string
}

// connectionTo is that to a cluster.
func connectionTo(cluster *realkafka.Cluster) connection {
	if *flagSecurity == "" || cluster.Certs() == nil {
		return connection{bootstrap: cluster.BootstrapString(), witness: cluster.Bootstrap()}
	}
	return connection{cluster.Listener(realkafka.SASLSSL), cluster.Bootstrap(), []string{
		fmt.Sprintf("tls: { enabled: true, root_cas_file: %q }", cluster.Certs().CA),
		fmt.Sprintf("sasl: [ { mechanism: SCRAM-SHA-512, username: %s, password: %q } ]", user, realkafka.Password),
	}}
}

// Flow is the connection as part of a block on one line, Block as lines with an indentation.
func (c connection) Flow() string { return strings.Join(c.all(), ", ") }

// Block is Flow in lines, with an indentation for those behind the first.
func (c connection) Block(indent int) string {
	return strings.Join(c.all(), "\n"+strings.Repeat(" ", indent))
}

func (c connection) all() []string {
	return append([]string{fmt.Sprintf("bootstrap_servers: [ %q ]", c.bootstrap)}, c.fields...)
}
