package kafkaclient

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
)

// A listener that is spoken to in the wrong way hangs up without a word, and so does one that is going down. So it is asked
// what it wants, on connections of their own: in plain text, then with TLS; by ApiVersions, which is answered before
// anybody has logged in; and by a SASL handshake, whose answer names the mechanisms. Nothing secret is sent.

// inspectTimeout bounds one of these connections.
const inspectTimeout = 5 * time.Second

// ListenerError says that the settings do not fit what a listener wants. Waiting does not cure it.
type ListenerError struct {
	// Text says what does not fit, and the way out.
	Text string
	Err  error
}

func (e *ListenerError) Error() string { return e.Text + " (" + e.Err.Error() + ")" }
func (e *ListenerError) Unwrap() error { return e.Err }

// wants is what a listener has told of itself.
type wants struct {
	tls  bool
	sasl bool
	// mechanisms are those it offers.
	mechanisms []string
	// cert is set where it asked for a certificate of the client, and said no.
	cert bool
}

// doubtful tells whether an error may come of settings that do not fit, and only the listener can tell.
func doubtful(err error) bool {
	if certificateError(err) || errors.Is(err, context.Canceled) {
		return false
	}
	if errors.Is(err, kerr.UnsupportedSaslMechanism) || errors.Is(err, kerr.IllegalSaslState) {
		return true
	}
	if _, ok := errors.AsType[*kerr.Error](err); ok {
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false // nobody is there
	}
	return !errors.Is(err, context.DeadlineExceeded)
}

// explainListener asks the listener at addr what it wants, and returns a ListenerError where the client's settings do not
// fit; else err.
func explainListener(ctx context.Context, cl *kgo.Client, addr string, err error) error {
	logins, _ := cl.OptValue(kgo.SASL).([]sasl.Mechanism)
	if errors.Is(err, kerr.SaslAuthenticationFailed) {
		return notLetIn(logins, err)
	}
	if !doubtful(err) {
		return err
	}
	conf, _ := cl.OptValue(kgo.DialTLSConfig).(*tls.Config)
	w, asked := inspect(ctx, addr, conf)
	if asked != nil {
		return err
	}
	if text := w.misfit(conf, logins); text != "" {
		return &ListenerError{Text: text, Err: err}
	}
	return err
}

// notLetIn names the user that a broker has refused.
func notLetIn(logins []sasl.Mechanism, err error) error {
	if len(logins) != 1 {
		return err
	}
	by, ok := logins[0].(login)
	if !ok {
		return err
	}
	return &ListenerError{Err: err, Text: fmt.Sprintf("%s: user %q was not let in with %s: the brokers do not know this user, or not "+
		"for this mechanism, or the password is wrong; correct username and password, or, where the password was changed, start again "+
		"with the new one", by.field, by.user, by.Name())}
}

// misfit says what of the settings does not fit; empty where all does, as far as one can tell.
func (w wants) misfit(conf *tls.Config, logins []sasl.Mechanism) string {
	switch {
	case w.tls && conf == nil:
		return "the listener speaks TLS, and TLS is off here: set tls.enabled: true, or connect to a port without TLS"
	case !w.tls && conf != nil:
		return "the listener speaks plain text, and TLS is on here: connect to the port with TLS, or set tls.enabled: false"
	case w.cert && len(conf.Certificates) == 0:
		return "the listener wants a certificate of the client (mutual TLS), and there is none: set tls.client_certs"
	case w.cert:
		return "the listener does not accept the certificate of tls.client_certs: it has to be signed by an authority that the " +
			"brokers trust, be meant for clients, and not have expired"
	case w.sasl && len(logins) == 0:
		return "the listener wants the client to log in, and sasl is empty: set sasl, with one of the mechanisms it offers: " +
			strings.Join(w.mechanisms, ", ")
	case !w.sasl && len(logins) > 0:
		return "the listener does not let anybody log in, and sasl is set: remove sasl, or connect to a port with SASL"
	}
	if len(logins) == 0 || slices.ContainsFunc(logins, func(m sasl.Mechanism) bool { return slices.Contains(w.mechanisms, m.Name()) }) {
		return ""
	}
	names := make([]string, len(logins))
	for i, m := range logins {
		names[i] = m.Name()
	}
	return fmt.Sprintf("sasl.0.mechanism: the listener does not offer %s; it offers %s", strings.Join(names, ", "),
		strings.Join(w.mechanisms, ", "))
}

// inspect finds out what the listener at addr wants. Its error is that it cannot be told.
func inspect(ctx context.Context, addr string, conf *tls.Config) (wants, error) {
	w, err := interview(ctx, addr, nil)
	if err == nil {
		return w, nil
	}
	if _, dialed := errors.AsType[*dialError](err); dialed {
		return wants{}, err
	}
	if conf == nil {
		conf = &tls.Config{}
	}
	conf = conf.Clone()
	// What the certificate is worth was asked before, by the client. Nothing is told to the listener here.
	conf.InsecureSkipVerify, conf.VerifyConnection = true, nil //nolint:gosec // see above
	asked := showing(conf)
	w, err = interview(ctx, addr, conf)
	w.tls = true
	if err == nil {
		return w, nil
	}
	// Only an alert says that the certificate, or that there is none, is not accepted: a proxy whose broker is down hangs up
	// too. TLS 1.2 says so within the handshake, TLS 1.3 behind it.
	if alert, ok := errors.AsType[*net.OpError](err); !ok || alert.Op != "remote error" || !asked.Load() {
		return wants{}, err
	}
	w.cert = true
	return w, nil
}

// showing has conf show the certificates that it has, and returns whether a listener has asked for one.
func showing(conf *tls.Config) *atomic.Bool {
	var asked atomic.Bool
	certs := conf.Certificates
	conf.GetClientCertificate = func(of *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked.Store(true)
		for i := range certs {
			if of.SupportsCertificate(&certs[i]) == nil {
				return &certs[i], nil
			}
		}
		return &tls.Certificate{}, nil
	}
	return &asked
}

type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// interview opens a connection, with TLS where conf is set, and asks. A listener that does not answer in Kafka's protocol
// is an error, a *dialError where there is no connection, or no TLS.
func interview(ctx context.Context, addr string, conf *tls.Config) (wants, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	var conn net.Conn
	var err error
	if conf == nil {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	} else {
		conn, err = (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return wants{}, &dialError{err}
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()

	versions := kmsg.NewPtrApiVersionsRequest() // v0 is answered by every broker
	if err := exchange(conn, versions, versions.ResponseKind()); err != nil {
		return wants{}, err
	}
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version = 1
	handshake.Mechanism = "TIDEGATE-ASKS"
	answer := kmsg.NewPtrSASLHandshakeResponse()
	answer.Version = 1
	if err := exchange(conn, handshake, answer); err != nil {
		return wants{}, err // one without SASL says so
	}
	w := wants{sasl: !errors.Is(kerr.ErrorForCode(answer.ErrorCode), kerr.IllegalSaslState), mechanisms: answer.SupportedMechanisms}
	slices.Sort(w.mechanisms)
	return w, nil
}

// exchange sends a request and reads its answer.
func exchange(conn net.Conn, req kmsg.Request, into kmsg.Response) error {
	const correlation, headerBytes = 1, 8
	out := kmsg.NewRequestFormatter(kmsg.FormatterClientID("tidegate")).AppendRequest(nil, req, correlation)
	if _, err := conn.Write(out); err != nil {
		return err
	}
	head := make([]byte, headerBytes)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head)
	if size < headerBytes-4 || size > 1<<20 || binary.BigEndian.Uint32(head[4:]) != correlation {
		return errors.New("what came is not Kafka's protocol")
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(conn, body); err != nil {
		return err
	}
	return into.ReadFrom(body)
}
