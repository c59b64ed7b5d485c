package controlplane

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

// certificates are the files that the API server and its clients need.
type certificates struct {
	ca, serving, servingKey string // PEM files
	accountKey, accountPub  string // the key pair that signs service account tokens
}

const week = 7 * 24 * time.Hour

func writeCertificates(dir string) (certificates, error) {
	at := func(name string) string { return filepath.Join(dir, name) }
	files := certificates{at("ca.crt"), at("apiserver.crt"), at("apiserver.key"), at("sa.key"), at("sa.pub")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return files, fmt.Errorf("making the certificate folder: %w", err)
	}
	caKey, servingKey, accountKey, err := threeKeys()
	if err != nil {
		return files, err
	}
	ca := leaf("paceline-rig-ca")
	ca.IsCA, ca.BasicConstraintsValid = true, true
	ca.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return files, fmt.Errorf("issuing the rig's CA: %w", err)
	}
	serving := leaf("kube-apiserver")
	serving.KeyUsage = x509.KeyUsageDigitalSignature
	serving.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	serving.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}
	serving.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	servingDER, err := x509.CreateCertificate(rand.Reader, serving, ca, servingKey.Public(), caKey)
	if err != nil {
		return files, fmt.Errorf("issuing the API server's certificate: %w", err)
	}
	return files, writePEMs(files, caDER, servingDER, servingKey, accountKey)
}

func writePEMs(files certificates, caDER, servingDER []byte, servingKey, accountKey *ecdsa.PrivateKey) error {
	servingKeyDER, err1 := x509.MarshalECPrivateKey(servingKey)
	accountKeyDER, err2 := x509.MarshalECPrivateKey(accountKey)
	accountPubDER, err3 := x509.MarshalPKIXPublicKey(accountKey.Public())
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return fmt.Errorf("encoding a key: %w", err)
		}
	}
	for _, file := range []struct {
		path, kind string
		der        []byte
	}{
		{files.ca, "CERTIFICATE", caDER},
		{files.serving, "CERTIFICATE", servingDER},
		{files.servingKey, "EC PRIVATE KEY", servingKeyDER},
		{files.accountKey, "EC PRIVATE KEY", accountKeyDER},
		{files.accountPub, "PUBLIC KEY", accountPubDER},
	} {
		text := pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.der})
		if err := os.WriteFile(file.path, text, 0o600); err != nil {
			return fmt.Errorf("writing a certificate file: %w", err)
		}
	}
	return nil
}

func threeKeys() (a, b, c *ecdsa.PrivateKey, err error) {
	for _, key := range []**ecdsa.PrivateKey{&a, &b, &c} {
		if *key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, nil, nil, fmt.Errorf("making a key: %w", err)
		}
	}
	return a, b, c, nil
}

func leaf(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(week),
	}
}
