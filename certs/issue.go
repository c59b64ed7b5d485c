package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	// authorityLives is how many times longer than the certificate its authority lives.
	authorityLives = 10
	// maxAuthorityLife caps that.
	maxAuthorityLife = 10 * 365 * 24 * time.Hour
	// maxBackdate is how far a clock may be behind ours and still accept what we just issued.
	maxBackdate = time.Hour
)

// keyPair is a certificate with its private key, and the chain to send with it: itself, then any
// intermediate authorities.
type keyPair struct {
	cert  *x509.Certificate
	key   crypto.Signer
	chain [][]byte
}

// backdate is how long before now what is issued becomes valid. It stays small against the validity,
// so that two thirds of a short life are not over at birth.
func backdate(validity time.Duration) time.Duration {
	return min(maxBackdate, validity/10)
}

// issueAuthority makes a self-signed authority. Each has a name of its own: while two of them stand in
// one caBundle a verifier tells them apart.
func issueAuthority(now time.Time, validity time.Duration) (*keyPair, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	return sign(&x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%s %x", authorityName, serial.Bytes()[:4])},
		NotBefore:             now.Add(-backdate(validity)),
		NotAfter:              now.Add(min(authorityLives*validity, maxAuthorityLife)),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil)
}

// issueLeaf makes the serving certificate; it never outlives its authority.
func issueLeaf(now time.Time, opts Options, authority *keyPair) (*keyPair, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "paceline webhook"},
		NotBefore:             now.Add(-backdate(opts.Validity)),
		NotAfter:              earlier(now.Add(opts.Validity), authority.cert.NotAfter),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range opts.names() {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return sign(template, authority)
}

// sign makes a P-256 key for template and signs with the issuer's key, or its own without an issuer.
func sign(template *x509.Certificate, issuer *keyPair) (*keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	parent, signer := template, crypto.Signer(key)
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading back a certificate: %w", err)
	}
	return &keyPair{cert: cert, key: key, chain: [][]byte{der}}, nil
}

// newSerial returns 128 random bits with the highest one set, so that it always has 16 bytes.
func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	return serial.SetBit(serial, 126, 1), nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
