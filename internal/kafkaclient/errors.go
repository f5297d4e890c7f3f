package kafkaclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

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
	// ClassFatal: the same request will fail again.
	ClassFatal
)

func (c Class) String() string {
	return [...]string{"none", "ended", "retriable", "authorisation", "fatal"}[c]
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
	for _, c := range causes {
		if c.matches(err) {
			return c.text
		}
	}
	return ""
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
		"the principal has no ACL for this topic: a source needs Read and Describe, a sink Write and Describe"},
	{is(kerr.InvalidTimestamp), "a record's timestamp lies further ahead than the topic's message.timestamp.after.max.ms allows, 1h by " +
		"default, or further back than message.timestamp.before.max.ms does; are these microseconds? Else set the topic's limit, or " +
		"write the time of writing"},
	{is(kerr.GroupAuthorizationFailed), "the principal has no Read ACL for this consumer group"},
	{is(kerr.TransactionalIDAuthorizationFailed),
		"the principal has no Write and Describe ACL for this transactional id; ACLs may be given for its prefix"},
	{is(kerr.ClusterAuthorizationFailed), "the principal has no ACL for this operation on the cluster"},
	{is(kerr.SaslAuthenticationFailed), "user name, password or token were refused"},
	{is(kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState),
		"the listener does not offer the SASL mechanism that is configured"},
	{as[*kgo.ErrFirstReadEOF],
		"the listener hung up at once: it expects TLS or SASL and got none, or the other way round"},
	{as[*x509.UnknownAuthorityError], "the broker's certificate is signed by an authority that is not trusted here"},
	{as[*x509.HostnameError], "the broker's certificate is for another host name"},
	{as[tls.RecordHeaderError], "TLS is switched on here, but the listener speaks plain text"},
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
	{is(kerr.UnknownTopicOrPartition), "the topic does not exist, or the principal may not describe it"},
	{is(kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress),
		"the group has members: another application consumes with the same group"},
	{is(kerr.UnsupportedVersion), "the broker is too old for this request"},
}
