package kafkaclient

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/youmark/pkcs8"
)

// TLS are the settings of encrypted connections.
type TLS struct {
	// RootCAs are the authorities that a broker's certificate may be signed by; none: those of the system.
	RootCAs []Material
	// ServerName is the name that the broker's certificate has to be for; empty: the host that is dialled.
	ServerName string
	// AnyName takes a certificate for any name, as long as its authority is known; SkipVerify takes any certificate.
	AnyName, SkipVerify bool
	// Renegotiation lets the broker ask for it.
	Renegotiation bool
	ClientCerts   []ClientCert
}

// Material is a text in PEM: as it is, or in a file.
type Material struct {
	// Field names the setting, for messages.
	Field string
	// File is the path of the file, if it is one.
	File string
	Text Secret
}

// ClientCert is a certificate that the client shows, and its key.
type ClientCert struct {
	Cert, Key Material
	// Password opens an encrypted key; PasswordField names its setting.
	Password      Secret
	PasswordField string
}

// Build reads the files and returns what a connection needs. Its error names the setting, the file, and what is wrong
// with it; it never quotes what is in there.
func (t TLS) Build() (*tls.Config, error) {
	conf := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.SkipVerify || t.AnyName, //nolint:gosec // the user says so; AnyName verifies the chain below
	}
	if t.Renegotiation {
		conf.Renegotiation = tls.RenegotiateFreelyAsClient
	}
	var errs []error
	for _, m := range t.RootCAs {
		if conf.RootCAs == nil {
			conf.RootCAs = x509.NewCertPool()
		}
		certs, err := m.certificates()
		if err != nil {
			errs = append(errs, err)
		}
		for _, c := range certs {
			conf.RootCAs.AddCert(c)
		}
	}
	for _, c := range t.ClientCerts {
		cert, err := c.load()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		conf.Certificates = append(conf.Certificates, cert)
	}
	if t.AnyName && !t.SkipVerify {
		roots := conf.RootCAs
		conf.VerifyConnection = func(state tls.ConnectionState) error { return verifyChain(state, roots) }
	}
	return conf, errors.Join(errs...)
}

// verifyChain is what crypto/tls does, but for the name.
func verifyChain(state tls.ConnectionState, roots *x509.CertPool) error {
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(options)
	return err
}

// describe is the setting and its value, where that is not secret.
func (m Material) describe() string {
	if m.File != "" {
		return fmt.Sprintf("%s: %q", m.Field, m.File)
	}
	return m.Field
}

func (m Material) read() ([]byte, error) {
	if m.File == "" {
		return []byte(m.Text.reveal()), nil
	}
	text, err := os.ReadFile(m.File)
	if err != nil {
		reason := err
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			reason = pe.Err
		}
		return nil, fmt.Errorf("%s cannot be read: %w; is the path right, seen from the folder the process runs in, and in a "+
			"container, is the file mounted?", m.describe(), reason)
	}
	return text, nil
}

// blocks are the PEM blocks of a text.
func (m Material) blocks() ([]*pem.Block, error) {
	text, err := m.read()
	if err != nil {
		return nil, err
	}
	var out []*pem.Block
	for rest := text; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		out = append(out, b)
	}
	switch {
	case len(out) > 0:
		return out, nil
	case bytes.HasPrefix(text, []byte{0xFE, 0xED, 0xFE, 0xED}):
		return nil, fmt.Errorf("%s is a Java key store (JKS), and has to be PEM; convert it by `keytool -importkeystore "+
			"-srckeystore FILE -destkeystore store.p12 -deststoretype PKCS12` and `openssl pkcs12 -in store.p12 -out store.pem`",
			m.describe())
	case bytes.HasPrefix(text, []byte{0x30}):
		return nil, fmt.Errorf("%s is binary (PKCS#12 or DER), and has to be PEM; convert it by `openssl pkcs12 -in FILE -out "+
			"store.pem`, or a certificate in DER by `openssl x509 -inform der -in FILE -out cert.pem`", m.describe())
	case len(bytes.TrimSpace(text)) == 0:
		return nil, fmt.Errorf("%s is empty; it has to be PEM, which begins with -----BEGIN", m.describe())
	}
	return nil, fmt.Errorf("%s holds nothing in PEM, which begins with -----BEGIN; in a text with \\n in place of line breaks, "+
		"use double quotes", m.describe())
}

func (m Material) certificates() ([]*x509.Certificate, error) {
	blocks, err := m.blocks()
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for i, b := range blocks {
		if b.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: part %d is no certificate: %w", m.describe(), i+1, err)
		}
		out = append(out, cert)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no certificate, but %s", m.describe(), blocks[0].Type)
	}
	return out, nil
}

func (c ClientCert) load() (tls.Certificate, error) {
	certs, err := c.Cert.certificates()
	if err != nil {
		return tls.Certificate{}, err
	}
	if end := certs[0].NotAfter; time.Now().After(end) {
		return tls.Certificate{}, fmt.Errorf("%s: the certificate has expired on %s, and brokers would refuse it; renew it",
			c.Cert.describe(), end.UTC().Format(time.RFC3339))
	}
	key, err := c.key()
	if err != nil {
		return tls.Certificate{}, err
	}
	var chain []byte
	for _, cert := range certs {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s does not belong to the certificate of %s: %w", c.Key.describe(), c.Cert.describe(), err)
	}
	return pair, nil
}

// key is the private key in PEM, without a password.
func (c ClientCert) key() ([]byte, error) {
	blocks, err := c.Key.blocks()
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		switch {
		case b.Type == "CERTIFICATE", b.Type == "EC PARAMETERS":
		case b.Type == "ENCRYPTED PRIVATE KEY":
			return c.open(func() (any, error) { return pkcs8.ParsePKCS8PrivateKey(b.Bytes, []byte(c.Password.reveal())) })
		case x509.IsEncryptedPEMBlock(b): //nolint:staticcheck // what openssl wrote for years
			return c.open(func() (any, error) {
				der, err := x509.DecryptPEMBlock(b, []byte(c.Password.reveal())) //nolint:staticcheck // see above
				if err != nil {
					return nil, err
				}
				return parseKey(der)
			})
		default:
			return pem.EncodeToMemory(b), nil
		}
	}
	return nil, fmt.Errorf("%s holds no private key, but %s", c.Key.describe(), blocks[0].Type)
}

// open makes a key that needs no password out of one that does.
func (c ClientCert) open(decrypt func() (any, error)) ([]byte, error) {
	if c.Password.Empty() {
		return nil, fmt.Errorf("%s is encrypted, and %s is empty", c.Key.describe(), c.PasswordField)
	}
	key, err := decrypt()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be decrypted; %s is wrong, or the cipher is not supported: %w", c.Key.describe(), c.PasswordField, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Key.describe(), err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func parseKey(der []byte) (any, error) {
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	return x509.ParsePKCS8PrivateKey(der)
}
