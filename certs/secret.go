package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret. An authority that is about to take over stands beside the one that signs, one
// that was replaced stays as a certificate until nobody serves what it signed.
const (
	caCertKey       = "ca.crt"
	caKeyKey        = "ca.key"
	nextCertKey     = "ca-next.crt"
	nextKeyKey      = "ca-next.key"
	previousCertKey = "ca-previous.crt"
)

// material is what the Secret holds. A part that is missing or damaged is nil.
type material struct {
	authority *keyPair
	leaf      *keyPair
	next      *keyPair            // trusted first, signs later
	previous  []*x509.Certificate // signed before, trusted until nobody serves it
}

// readSecret takes apart what can be read; a damaged part counts as missing, so that it is issued again.
func readSecret(secret *corev1.Secret) material {
	return material{
		authority: readPair(secret.Data[caCertKey], secret.Data[caKeyKey]),
		leaf:      readPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]),
		next:      readPair(secret.Data[nextCertKey], secret.Data[nextKeyKey]),
		previous:  readCertificates(secret.Data[previousCertKey]),
	}
}

// writeSecret puts m into the keys that are ours and leaves every other key alone.
func writeSecret(secret *corev1.Secret, m material) error {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for _, part := range []struct {
		pair             *keyPair
		certKey, keyName string
	}{
		{m.authority, caCertKey, caKeyKey},
		{m.leaf, corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
		{m.next, nextCertKey, nextKeyKey},
	} {
		if part.pair == nil {
			delete(secret.Data, part.certKey)
			delete(secret.Data, part.keyName)
			continue
		}
		key, err := encodeKey(part.pair.key)
		if err != nil {
			return err
		}
		secret.Data[part.certKey], secret.Data[part.keyName] = encodeCertificates(part.pair.cert), key
	}
	delete(secret.Data, previousCertKey)
	if len(m.previous) > 0 {
		secret.Data[previousCertKey] = encodeCertificates(m.previous...)
	}
	return nil
}

// bundle is every authority to trust: the one that signs, the next one, those before.
func (m material) bundle() []*x509.Certificate {
	var certificates []*x509.Certificate
	for _, pair := range []*keyPair{m.authority, m.next} {
		if pair != nil {
			certificates = append(certificates, pair.cert)
		}
	}
	return append(certificates, m.previous...)
}

// readPair returns nil when certificate or key are missing, damaged or do not belong together.
func readPair(cert, key []byte) *keyPair {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil
	}
	return &keyPair{cert: pair.Leaf, key: signer, chain: pair.Certificate}
}

// readCertificates returns the certificates of a PEM text and skips what it cannot read.
func readCertificates(text []byte) []*x509.Certificate {
	var certificates []*x509.Certificate
	for {
		var block *pem.Block
		block, text = pem.Decode(text)
		if block == nil {
			return certificates
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			certificates = append(certificates, cert)
		}
	}
}

func encodeCertificates(certificates ...*x509.Certificate) []byte {
	var text bytes.Buffer
	for _, cert := range certificates {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	}
	return text.Bytes()
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
