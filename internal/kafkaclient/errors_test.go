package kafkaclient

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestClassify(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, tc := range []struct {
		err   error
		class Class
		cause string
	}{
		{nil, ClassNone, ""},
		{context.Canceled, ClassEnded, ""},
		{kgo.ErrClientClosed, ClassEnded, ""},
		{context.DeadlineExceeded, ClassRetriable, ""},
		{refused, ClassRetriable, "nothing listens at this address"},
		{&net.DNSError{Err: "no such host", Name: "kafka", IsNotFound: true}, ClassRetriable, "cannot be resolved"},
		{io.EOF, ClassRetriable, ""},
		{kerr.NotLeaderForPartition, ClassRetriable, ""},
		{kerr.CoordinatorNotAvailable, ClassRetriable, ""},
		{kerr.UnknownTopicOrPartition, ClassRetriable, "the topic does not exist"},
		{kerr.TopicAuthorizationFailed, ClassAuthorisation, "grant the operation Read on a topic"},
		{kerr.TransactionalIDAuthorizationFailed, ClassAuthorisation, "transactional id"},
		{kerr.SaslAuthenticationFailed, ClassAuthorisation, "check username and password of sasl"},
		{x509.UnknownAuthorityError{}, ClassSettings, "set tls.root_cas_file"},
		{x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a", "b"}}, Host: "c"}, ClassSettings, "is for a, b, and not for c"},
		{x509.HostnameError{Certificate: &x509.Certificate{}, Host: "c"}, ClassSettings, "names no host"},
		{x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{}}, ClassSettings, "is valid from"},
		{&ListenerError{Text: "no", Err: io.EOF}, ClassSettings, ""},
		{kerr.OffsetOutOfRange, ClassFatal, ""},
		{kerr.UnsupportedVersion, ClassFatal, "too old"},
		{errors.New("something else"), ClassFatal, ""},
	} {
		t.Run(fmt.Sprint(tc.err), func(t *testing.T) {
			require.Equal(t, tc.class, Classify(tc.err))
			if tc.err == nil {
				require.NoError(t, WithCause(tc.err))
				return
			}
			wrapped := fmt.Errorf("doing something: %w", tc.err)
			require.Equal(t, tc.class, Classify(wrapped), "wrapped")
			if tc.cause == "" {
				require.Empty(t, Explain(wrapped))
			} else {
				require.ErrorContains(t, WithCause(wrapped), tc.cause)
			}
			require.ErrorIs(t, WithCause(wrapped), tc.err)
		})
	}
}
