package kafkaclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Class tells what can be done about an error.
type Class uint8

// The classes of errors.
const (
	// ClassNone is that of nil.
	ClassNone Class = iota
	// ClassEnded: the caller's context ended, or the client was closed; the error says nothing of the cluster.
	ClassEnded
	// ClassRetriable: the same request may succeed later without anybody's help.
	ClassRetriable
	// ClassAuthorisation: the cluster knows us and refuses, or does not accept who we say we are.
	ClassAuthorisation
	// ClassSettings: what is set for TLS or SASL does not fit the listener.
	ClassSettings
	// ClassFatal: the same request will fail again.
	ClassFatal
)

func (c Class) String() string {
	return [...]string{"none", "ended", "retriable", "authorisation", "settings", "fatal"}[c]
}

// Classify tells what can be done about an error of the client or the broker.
func Classify(err error) Class {
	switch {
	case err == nil:
		return ClassNone
	case errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
		return ClassEnded
	case isAuthorisation(err):
		return ClassAuthorisation
	case as[*ListenerError](err), certificateError(err):
		return ClassSettings
	}
	if ke, ok := errors.AsType[*kerr.Error](err); ok {
		if ke.Retriable {
			return ClassRetriable
		}
		return ClassFatal
	}
	// A deadline is the caller's or the connection's; both mean that no answer came in time.
	if errors.Is(err, context.DeadlineExceeded) || isNetwork(err) || kgo.IsRetryableBrokerErr(err) {
		return ClassRetriable
	}
	return ClassFatal
}

// Final tells whether an error at the start is one that no waiting cures: what the cluster refuses, it will refuse again
// (rule 13).
func Final(err error) bool {
	class := Classify(err)
	return class == ClassAuthorisation || class == ClassSettings
}

// certificateError tells whether a broker's certificate was not accepted here.
func certificateError(err error) bool {
	return as[*tls.CertificateVerificationError](err) || x509Error(err)
}

func x509Error(err error) bool {
	return as[x509.UnknownAuthorityError](err) || as[x509.HostnameError](err) || as[x509.CertificateInvalidError](err)
}

func isAuthorisation(err error) bool {
	for _, e := range []error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.TransactionalIDAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.IllegalSaslState,
		kerr.UnsupportedSaslMechanism, kerr.DelegationTokenAuthorizationFailed,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func isNetwork(err error) bool {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	_, eof := errors.AsType[*kgo.ErrFirstReadEOF](err)
	return eof || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, os.ErrDeadlineExceeded)
}

// Explain names the likely cause of an error and the way out, as one sentence without a full stop. It is empty where
// the error's own text says it all.
func Explain(err error) string {
	if as[*ListenerError](err) || as[*AccessError](err) {
		return "" // says all there is to say
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return expired(invalid.Cert)
	}
	if host, ok := errors.AsType[x509.HostnameError](err); ok {
		return wrongName(host)
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return untrusted(unknown.Cert)
	}
	for _, c := range causes {
		if c.matches(err) {
			return c.text
		}
	}
	return ""
}

// untrusted names the authority that is wanted, since tls.root_cas_file may be set, to another one's certificate.
func untrusted(cert *x509.Certificate) string {
	issuer := "an authority"
	if cert != nil && cert.Issuer.String() != "" {
		issuer = fmt.Sprintf("%q, an authority", cert.Issuer.String())
	}
	return "the broker's certificate is signed by " + issuer + " that is not trusted here: set tls.root_cas_file to the certificate of " +
		"that authority, or to a file that holds it too"
}

// WithCause returns err with what Explain knows of it appended.
func WithCause(err error) error {
	text := Explain(err)
	if err == nil || text == "" {
		return err
	}
	return &explained{err: err, text: text}
}

type explained struct {
	err  error
	text string
}

func (e *explained) Error() string { return e.err.Error() + " (" + e.text + ")" }
func (e *explained) Unwrap() error { return e.err }

type cause struct {
	matches func(error) bool
	text    string
}

func is(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

var causes = []cause{
	{is(kerr.TopicAuthorizationFailed),
		"the user has no ACL for this topic: grant the operation Read on a topic that is read, Write on one that is written; each " +
			"includes Describe. Is the name spelt right, and does the topic exist? Brokers answer so too for a topic that does not, where the user " +
			"may not describe it"},
	{is(kerr.GroupAuthorizationFailed), "the user has no ACL for this consumer group: grant the operation Read on resource Group"},
	{is(kerr.InvalidTimestamp), "a record's timestamp lies further ahead than the topic's message.timestamp.after.max.ms allows, 1h by " +
		"default, or further back than message.timestamp.before.max.ms does; are these microseconds? Else set the topic's limit, or " +
		"write the time of writing"},
	{is(kerr.TransactionalIDAuthorizationFailed),
		"the user has no ACL for this transactional id: grant the operation Write on resource TransactionalId, as a rule on its " +
			"prefix with pattern type PREFIXED"},
	{is(kerr.ClusterAuthorizationFailed), "the user has no ACL for this operation on resource Cluster"},
	{is(kerr.SaslAuthenticationFailed),
		"the brokers do not know this user, or the password is wrong: check username and password of sasl; a password that was " +
			"changed counts for new connections at once"},
	{is(kerr.UnsupportedSaslMechanism),
		"the listener does not offer the mechanism of sasl"},
	{is(kerr.IllegalSaslState),
		"the listener does not let anybody log in: remove sasl, or connect to a port with SASL"},
	{as[*kgo.ErrFirstReadEOF],
		"the listener hung up at once: it is going down, or it expects TLS or SASL (tls, sasl) and got none, or the other way round"},
	{as[x509.CertificateInvalidError], "the broker's certificate cannot be used"},
	{as[tls.RecordHeaderError], "TLS is on here, but the listener speaks plain text: connect to the port with TLS, or set tls.enabled: false"},
	{func(err error) bool {
		dns, ok := errors.AsType[*net.DNSError](err)
		return ok && dns.IsNotFound
	}, "the host name cannot be resolved here"},
	{is(syscall.ECONNREFUSED), "nothing listens at this address: the broker is down, or host or port are wrong"},
	{is(syscall.EHOSTUNREACH, syscall.ENETUNREACH), "there is no route to this address"},
	{func(err error) bool {
		op, ok := errors.AsType[*net.OpError](err)
		return ok && op.Op == "dial" && op.Timeout()
	}, "no answer at all: a firewall drops packets, or the address is wrong"},
	{is(kerr.UnknownTopicOrPartition), "the topic does not exist, or the user may not describe it"},
	{is(kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress),
		"the group has members: another application consumes with the same group"},
	{is(kerr.UnsupportedVersion), "the broker is too old for this request"},
}

func expired(cert *x509.Certificate) string {
	if cert == nil {
		return "the broker's certificate has expired, or is not valid yet: renew it, and check the clock of this machine"
	}
	return fmt.Sprintf("the broker's certificate is valid from %s to %s only: renew it, and check the clock of this machine",
		cert.NotBefore.UTC().Format(time.RFC3339), cert.NotAfter.UTC().Format(time.RFC3339))
}

func wrongName(e x509.HostnameError) string {
	names := slices.Clone(e.Certificate.DNSNames)
	for _, ip := range e.Certificate.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return fmt.Sprintf("the broker's certificate names no host, and so not %s: give it one with a subject alternative name", e.Host)
	}
	return fmt.Sprintf("the broker's certificate is for %s, and not for %s: connect to it by that name, or set tls.server_name to it",
		strings.Join(names, ", "), e.Host)
}
