package kafkaclient

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The SASL mechanisms, as Kafka names them, and none for a connection without.
const (
	MechanismPlain    = "PLAIN"
	MechanismScram256 = "SCRAM-SHA-256"
	MechanismScram512 = "SCRAM-SHA-512"
	MechanismNone     = "none"
)

// Mechanisms are the SASL mechanisms there are.
var Mechanisms = []string{MechanismPlain, MechanismScram256, MechanismScram512}

// SASL is who the client says it is.
type SASL struct {
	// Mechanism is one of Mechanisms.
	Mechanism string
	Username  string
	Password  Secret
	// Field names the setting, for messages.
	Field string
}

// KnownMechanism returns a mechanism as Kafka writes it, or why there is none.
func KnownMechanism(name string) (string, error) {
	upper := strings.ToUpper(strings.TrimSpace(name))
	for _, m := range Mechanisms {
		if upper == m || upper == strings.ReplaceAll(m, "-", "_") {
			return m, nil
		}
	}
	switch upper {
	case "GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM":
		return "", fmt.Errorf("%s is not supported yet; there are %s", upper, strings.Join(Mechanisms, ", "))
	case "SCRAM", "SCRAM-SHA256", "SCRAM-SHA512":
		return "", fmt.Errorf("%q is no mechanism; write %s or %s", name, MechanismScram256, MechanismScram512)
	case "":
		return "", fmt.Errorf("is empty; write one of %s", strings.Join(Mechanisms, ", "))
	}
	return "", fmt.Errorf("%q is no mechanism; there are %s", name, strings.Join(Mechanisms, ", "))
}

// complete tells what is missing. An unset environment variable is an empty text here, and Kafka's answer to one would be
// that the password is wrong.
func (s SASL) complete() error {
	var errs []error
	if s.Username == "" {
		errs = append(errs, fmt.Errorf("%s: the user name is empty; if it comes from an environment variable, is that set?", s.Field))
	}
	if s.Password.Empty() {
		errs = append(errs, fmt.Errorf("%s: the password is empty; if it comes from an environment variable, is that set?", s.Field))
	}
	return errors.Join(errs...)
}

// mechanism is what the client logs in by. It logs in anew whenever a connection is made, and on a living one before the
// broker's connections.max.reauth.ms is over (KIP-368).
func (s SASL) mechanism() sasl.Mechanism {
	m := login{user: s.Username, field: s.Field}
	switch s.Mechanism {
	case MechanismScram256:
		m.Mechanism = scram.Auth{User: s.Username, Pass: s.Password.reveal()}.AsSha256Mechanism()
	case MechanismScram512:
		m.Mechanism = scram.Auth{User: s.Username, Pass: s.Password.reveal()}.AsSha512Mechanism()
	default:
		m.Mechanism = plain.Auth{User: s.Username, Pass: s.Password.reveal()}.AsMechanism()
	}
	return m
}

// login is a mechanism that can say who it is for.
type login struct {
	sasl.Mechanism
	user, field string
}
