package kafkaclient

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// certificate is one for 127.0.0.1 that signs itself.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// hangingUp listens, does with each connection what meet does, and hangs up.
func hangingUp(t *testing.T, meet func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				meet(conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

// shakingHands speaks TLS, reads the first request and hangs up, as a proxy does whose broker is down.
func shakingHands(conf *tls.Config) func(net.Conn) {
	return func(conn net.Conn) {
		c := tls.Server(conn, conf)
		_, _ = c.Read(make([]byte, 64))
		_ = c.Close()
	}
}

// plainOnly passes what it gets on to a broker, and hangs up on a TLS handshake, which Kafka takes for a request that is
// too large.
func plainOnly(broker string) func(net.Conn) {
	const handshake = 22
	return func(from net.Conn) {
		first := make([]byte, 1)
		if _, err := io.ReadFull(from, first); err != nil || first[0] == handshake {
			return
		}
		to, err := net.Dial("tcp", broker)
		if err != nil {
			return
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = io.Copy(from, to)
			_ = from.Close()
		})
		if _, err := to.Write(first); err == nil {
			_, _ = io.Copy(to, from)
		}
		_ = to.Close()
		wg.Wait()
	}
}

// kafkaListener is an embedded broker, and its address.
func kafkaListener(t *testing.T, opts ...kfake.Opt) string {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

// A listener says nothing when it hangs up. What is told as the cause has to be the cause: a wrong one sends people to
// change settings that are right, and ends a process that would only have to wait.
func TestListenerThatHangsUpIsAskedWhatItWants(t *testing.T) {
	cert := certificate(t)
	server := func(version uint16, auth tls.ClientAuthType) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: version, MaxVersion: version, ClientAuth: auth}
	}
	trusting := func(with ...tls.Certificate) *tls.Config {
		roots := x509.NewCertPool()
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		require.NoError(t, err)
		roots.AddCert(leaf)
		return &tls.Config{RootCAs: roots, Certificates: with}
	}
	login := plain.Auth{User: "u", Pass: "p"}.AsMechanism()
	for name, tc := range map[string]struct {
		addr string
		conf *tls.Config
		sasl sasl.Mechanism
		// want is the cause; empty where none can be told, so that it is tried again.
		want string
	}{
		"plain, gone before it answers":         {hangingUp(t, func(net.Conn) {}), nil, nil, ""},
		"plain, gone before the TLS handshake":  {hangingUp(t, func(net.Conn) {}), trusting(), nil, ""},
		"plain, and no Kafka":                   {hangingUp(t, func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }), nil, nil, ""},
		"TLS 1.3, gone behind the handshake":    {hangingUp(t, shakingHands(server(tls.VersionTLS13, tls.NoClientCert))), trusting(), nil, ""},
		"TLS 1.2, gone behind the handshake":    {hangingUp(t, shakingHands(server(tls.VersionTLS12, tls.NoClientCert))), trusting(), nil, ""},
		"the same, with a certificate of ours":  {hangingUp(t, shakingHands(server(tls.VersionTLS13, tls.NoClientCert))), trusting(cert), nil, ""},
		"TLS 1.3 that wants a certificate":      {hangingUp(t, shakingHands(server(tls.VersionTLS13, tls.RequireAndVerifyClientCert))), trusting(), nil, "wants a certificate of the client"},
		"TLS 1.2 that wants a certificate":      {hangingUp(t, shakingHands(server(tls.VersionTLS12, tls.RequireAndVerifyClientCert))), trusting(), nil, "wants a certificate of the client"},
		"TLS 1.3 that wants another":            {hangingUp(t, shakingHands(server(tls.VersionTLS13, tls.RequireAndVerifyClientCert))), trusting(cert), nil, "does not accept the certificate of tls.client_certs"},
		"TLS 1.2 that wants another":            {hangingUp(t, shakingHands(server(tls.VersionTLS12, tls.RequireAndVerifyClientCert))), trusting(cert), nil, "does not accept the certificate of tls.client_certs"},
		"TLS, spoken to in plain text":          {kafkaListener(t, kfake.TLS(server(0, tls.NoClientCert))), nil, nil, "set tls.enabled: true"},
		"plain text, spoken to with TLS":        {hangingUp(t, plainOnly(kafkaListener(t))), trusting(), nil, "set tls.enabled: false"},
		"SASL, spoken to without":               {kafkaListener(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p")), nil, nil, "the listener wants the client to log in, and sasl is empty"},
		"SASL, and all is well":                 {kafkaListener(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p")), nil, login, "none"},
		"TLS and SASL, spoken to without login": {kafkaListener(t, kfake.TLS(server(0, tls.NoClientCert)), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "p")), trusting(), nil, "sasl is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := []kgo.Opt{kgo.SeedBrokers(tc.addr), kgo.RequestRetries(0)}
			if tc.conf != nil {
				opts = append(opts, kgo.DialTLSConfig(tc.conf))
			}
			if tc.sasl != nil {
				opts = append(opts, kgo.SASL(tc.sasl))
			}
			cl, err := kgo.NewClient(opts...)
			require.NoError(t, err)
			defer cl.Close()
			_, err = Ping(t.Context(), cl, slog.New(slog.DiscardHandler))
			t.Log(err)
			switch tc.want {
			case "none":
				require.NoError(t, err)
			case "":
				require.Error(t, err)
				require.False(t, Final(err), err.Error())
				require.False(t, as[*ListenerError](err), err.Error())
			default:
				require.ErrorContains(t, err, tc.want)
				require.True(t, Final(err), "no waiting cures it")
			}
		})
	}
}
