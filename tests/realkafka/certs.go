package realkafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certs are files in PEM that a cluster with Options.Secure is made with, and those that do not fit it.
type Certs struct {
	// CA has signed everything but StrangerCA, which has signed nothing.
	CA, StrangerCA string
	// ClientCert and ClientKey are what the listener SSL asks for; its user is User:CN=client.
	ClientCert, ClientKey string
	// StrangerCert and StrangerKey are signed by an authority that the brokers do not trust.
	StrangerCert, StrangerKey string
	// broker holds a broker's certificate and its key, expired and wrongHost those of listeners that are broken.
	broker, expired, wrongHost string
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// writeCerts makes all certificates anew.
func writeCerts(dir string) (*Certs, error) {
	c := &Certs{}
	ca, err := newAuthority("test authority")
	if err != nil {
		return nil, err
	}
	stranger, err := newAuthority("another authority")
	if err != nil {
		return nil, err
	}
	day := 24 * time.Hour
	now := time.Now()
	for _, f := range []struct {
		file     *string
		name     string
		by       *authority
		template x509.Certificate
		key      *string
	}{
		{&c.broker, "broker", ca, x509.Certificate{NotAfter: now.Add(365 * day), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}}, nil},
		{&c.expired, "expired", ca, x509.Certificate{NotAfter: now.Add(-day), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, nil},
		{&c.wrongHost, "wronghost", ca, x509.Certificate{NotAfter: now.Add(365 * day), DNSNames: []string{"kafka.example.com"}}, nil},
		{&c.ClientCert, "client", ca, x509.Certificate{NotAfter: now.Add(365 * day)}, &c.ClientKey},
		{&c.StrangerCert, "stranger", stranger, x509.Certificate{NotAfter: now.Add(365 * day)}, &c.StrangerKey},
	} {
		cert, key, err := f.by.sign(f.name, f.template)
		if err != nil {
			return nil, err
		}
		*f.file = filepath.Join(dir, f.name+".pem")
		if f.key == nil {
			cert = append(cert, key...)
		} else {
			*f.key = filepath.Join(dir, f.name+".key")
			if err := os.WriteFile(*f.key, key, 0o600); err != nil {
				return nil, fmt.Errorf("writing a key: %w", err)
			}
		}
		if err := os.WriteFile(*f.file, cert, 0o600); err != nil {
			return nil, fmt.Errorf("writing a certificate: %w", err)
		}
	}
	for file, by := range map[string]*authority{"ca": ca, "strangerca": stranger} {
		path := filepath.Join(dir, file+".pem")
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: by.cert.Raw}), 0o644); err != nil {
			return nil, fmt.Errorf("writing the certificate of an authority: %w", err)
		}
		if by == ca {
			c.CA = path
		} else {
			c.StrangerCA = path
		}
	}
	return c, nil
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-72 * time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of an authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of an authority: %w", err)
	}
	return &authority{cert, key}, nil
}

// sign returns a certificate and its key, in PEM.
func (a *authority) sign(name string, template x509.Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore = time.Now().Add(-48 * time.Hour)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, &template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing a certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("writing a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}
