package certs

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// authorityName starts the common name of every authority that this package issues.
const authorityName = "Paceline webhook authority"

func isOwnAuthority(cert *x509.Certificate) bool {
	return cert.IsCA && strings.HasPrefix(cert.Subject.CommonName, authorityName)
}

// trustedByAll returns the authorities that stand in the caBundle of every webhook of a configuration,
// none when there is no configuration.
func trustedByAll(configuration *admissionregistrationv1.MutatingWebhookConfiguration) []*x509.Certificate {
	if configuration == nil || len(configuration.Webhooks) == 0 {
		return nil
	}
	trusted := readCertificates(configuration.Webhooks[0].ClientConfig.CABundle)
	for _, webhook := range configuration.Webhooks[1:] {
		here := readCertificates(webhook.ClientConfig.CABundle)
		var both []*x509.Certificate
		for _, cert := range trusted {
			if contains(here, cert) {
				both = append(both, cert)
			}
		}
		trusted = both
	}
	return trusted
}

// patchOperation is one operation of a JSON patch.
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// injection returns the JSON patch that puts bundle into every webhook that has another one, nil when
// none has. It carries the resourceVersion that was read, so a write in between is a conflict; it names
// only caBundle, so nothing that this version does not know is lost or becomes ours.
func injection(configuration *admissionregistrationv1.MutatingWebhookConfiguration, bundle []byte) ([]byte, error) {
	operations := []patchOperation{{"replace", "/metadata/resourceVersion", configuration.ResourceVersion}}
	for i, webhook := range configuration.Webhooks {
		if !bytes.Equal(webhook.ClientConfig.CABundle, bundle) {
			operations = append(operations, patchOperation{"add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), bundle})
		}
	}
	if len(operations) == 1 {
		return nil, nil
	}
	return json.Marshal(operations)
}
