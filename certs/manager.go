package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Mode says who issues the certificate.
type Mode string

// The modes.
const (
	Self        Mode = "self"
	CertManager Mode = "cert-manager"
)

// DefaultWebhookConfiguration is the name of the MutatingWebhookConfiguration of the chart.
const DefaultWebhookConfiguration = "zz-paceline"

// fieldOwner is who the API server says wrote Secret and caBundle.
const fieldOwner = client.FieldOwner("paceline-certs")

// errRaced says that another replica wrote first; reading again is all that it needs.
var errRaced = errors.New("another replica wrote first")

// Options say where certificate and trust live. Client must read live (not from a cache): what one
// replica wrote, the next must see.
type Options struct {
	Client client.Client
	Clock  clock.Clock // the real one by default

	Mode       Mode   // Self by default
	Namespace  string // of Paceline and the Secret
	SecretName string

	ServiceName string // the Service that the webhook configuration names; or
	URL         string // webhook.url, when the controller runs outside the cluster

	WebhookConfiguration string        // DefaultWebhookConfiguration by default
	Validity             time.Duration // of the certificate, 90 days by default
	// Interval is the time between two looks at Secret and webhook configuration, 5 s by default and
	// at most a twentieth of Validity. It bounds how long a lost Secret or caBundle goes unnoticed.
	Interval time.Duration
}

// names are what the certificate is for.
func (o Options) names() []string {
	if o.URL != "" {
		if parsed, err := url.Parse(o.URL); err == nil && parsed.Hostname() != "" {
			return []string{parsed.Hostname()}
		}
		return nil
	}
	service := o.ServiceName + "." + o.Namespace
	return []string{o.ServiceName, service, service + ".svc", service + ".svc.cluster.local"}
}

// Manager keeps the certificate. Every replica runs one.
type Manager struct {
	opts   Options
	served atomic.Pointer[served]
}

// served is the certificate in use and whether the API server trusts it.
type served struct {
	certificate *tls.Certificate
	untrusted   error
}

// New checks opts and fills in defaults.
func New(opts Options) (*Manager, error) {
	if opts.Client == nil || opts.Namespace == "" || opts.SecretName == "" {
		return nil, errors.New("certificates: want a client, a namespace and the name of a Secret")
	}
	if opts.URL == "" && opts.ServiceName == "" {
		return nil, errors.New("certificates: want a service name or a URL that the API server calls")
	}
	if len(opts.names()) == 0 {
		return nil, fmt.Errorf("certificates: webhook URL %q names no host", opts.URL)
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.Mode == "" {
		opts.Mode = Self
	}
	if opts.WebhookConfiguration == "" {
		opts.WebhookConfiguration = DefaultWebhookConfiguration
	}
	if opts.Validity == 0 {
		opts.Validity = 90 * 24 * time.Hour
	}
	if opts.Interval == 0 {
		opts.Interval = 5 * time.Second
	}
	opts.Interval = min(opts.Interval, opts.Validity/20)
	return &Manager{opts: opts}, nil
}

// NeedLeaderElection is false: every replica serves.
func (m *Manager) NeedLeaderElection() bool { return false }

// Start keeps Secret, caBundle and the served certificate in step until ctx ends.
func (m *Manager) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("certs")
	ctx = log.IntoContext(ctx, logger)
	for {
		wait := m.opts.Interval
		if err := m.sync(ctx); errors.Is(err, errRaced) {
			wait = min(wait, 100*time.Millisecond)
		} else if err != nil && ctx.Err() == nil {
			logger.Error(err, "Keeping the webhook certificate")
		}
		timer := m.opts.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// GetCertificate is for tls.Config.
func (m *Manager) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if now := m.served.Load(); now != nil {
		return now.certificate, nil
	}
	return nil, errors.New("no webhook certificate is loaded yet")
}

// Ready is a healthz.Checker: it fails until a valid certificate is loaded and the API server trusts it.
func (m *Manager) Ready(*http.Request) error {
	now := m.served.Load()
	switch {
	case now == nil:
		return errors.New("no webhook certificate is loaded yet")
	case !validAt(now.certificate.Leaf, m.opts.Clock.Now()):
		return fmt.Errorf("the webhook certificate expired at %s", now.certificate.Leaf.NotAfter.Format(time.RFC3339))
	default:
		return now.untrusted
	}
}

// Expiry is when the served certificate ends; false when none is loaded.
func (m *Manager) Expiry() (time.Time, bool) {
	if now := m.served.Load(); now != nil {
		return now.certificate.Leaf.NotAfter, true
	}
	return time.Time{}, false
}

// sync is one look. The webhook configuration is read BEFORE the Secret: a caBundle computed from an
// older Secret then always meets a newer resourceVersion, and cannot take trust away again.
func (m *Manager) sync(ctx context.Context) error {
	configuration, err := m.readConfiguration(ctx)
	if err != nil {
		return err
	}
	secret, err := m.readSecret(ctx)
	if err != nil {
		return err
	}
	held := readSecret(secret)
	if m.opts.Mode == Self {
		if held, err = m.keepSecret(ctx, secret, state{material: held, trusted: trustedByAll(configuration)}); err != nil {
			return err
		}
		configuration, err = m.inject(ctx, configuration, held)
	}
	m.serve(held, configuration)
	return err
}

// readConfiguration returns nil when there is none (yet).
func (m *Manager) readConfiguration(ctx context.Context) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	var configuration admissionregistrationv1.MutatingWebhookConfiguration
	err := m.opts.Client.Get(ctx, types.NamespacedName{Name: m.opts.WebhookConfiguration}, &configuration)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading webhook configuration: %w", err)
	}
	return &configuration, nil
}

// readSecret returns an empty one without resourceVersion when there is none (yet).
func (m *Manager) readSecret(ctx context.Context) (*corev1.Secret, error) {
	var secret corev1.Secret
	err := m.opts.Client.Get(ctx, types.NamespacedName{Namespace: m.opts.Namespace, Name: m.opts.SecretName}, &secret)
	if err == nil {
		return &secret, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading certificate secret: %w", err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.opts.Namespace,
			Name:      m.opts.SecretName,
			Labels:    map[string]string{"app.kubernetes.io/managed-by": "paceline.io"},
		},
		Type: corev1.SecretTypeTLS,
	}, nil
}

// keepSecret does the one change that is due and returns what the Secret holds after it.
func (m *Manager) keepSecret(ctx context.Context, secret *corev1.Secret, s state) (material, error) {
	now := m.opts.Clock.Now()
	action := next(s, now, m.opts)
	if action == None {
		return s.material, nil
	}
	changed, err := apply(action, s, now, m.opts)
	if err != nil {
		return material{}, err
	}
	if err := writeSecret(secret, changed); err != nil {
		return material{}, err
	}
	if secret.ResourceVersion == "" {
		err = m.opts.Client.Create(ctx, secret, fieldOwner)
	} else {
		err = m.opts.Client.Update(ctx, secret, fieldOwner)
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err) && secret.ResourceVersion != "":
		return material{}, errRaced
	case err != nil:
		return material{}, fmt.Errorf("writing certificate secret: %w", err)
	}
	log.FromContext(ctx).Info("Changed the certificate secret", "action", action, "expires", changed.leaf.cert.NotAfter)
	return changed, nil
}

// inject puts the authorities into every webhook and returns the configuration as it is then.
func (m *Manager) inject(
	ctx context.Context, configuration *admissionregistrationv1.MutatingWebhookConfiguration, held material,
) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	if configuration == nil {
		return nil, nil
	}
	patch, err := injection(configuration, encodeCertificates(held.bundle()...))
	if err != nil || patch == nil {
		return configuration, err
	}
	written := configuration.DeepCopy()
	err = m.opts.Client.Patch(ctx, written, client.RawPatch(types.JSONPatchType, patch), fieldOwner)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return configuration, errRaced
	}
	if err != nil {
		return configuration, fmt.Errorf("writing caBundle: %w", err)
	}
	log.FromContext(ctx).Info("Wrote the caBundle of every webhook", "configuration", m.opts.WebhookConfiguration)
	return written, nil
}

// serve takes what the Secret holds into use, unless the API server does not trust it yet and what is
// served now is still good.
func (m *Manager) serve(held material, configuration *admissionregistrationv1.MutatingWebhookConfiguration) {
	candidate := m.served.Load()
	if held.leaf != nil {
		fresh := &served{certificate: &tls.Certificate{
			Certificate: held.leaf.chain,
			PrivateKey:  held.leaf.key,
			Leaf:        held.leaf.cert,
		}}
		usable := candidate != nil && validAt(candidate.certificate.Leaf, m.opts.Clock.Now())
		if !usable || m.trust(fresh.certificate, configuration) == nil {
			candidate = fresh
		}
	}
	if candidate != nil {
		m.served.Store(&served{candidate.certificate, m.trust(candidate.certificate, configuration)})
	}
}

// trust verifies the certificate as the API server does, for every webhook.
func (m *Manager) trust(certificate *tls.Certificate, configuration *admissionregistrationv1.MutatingWebhookConfiguration) error {
	if configuration == nil || len(configuration.Webhooks) == 0 {
		return fmt.Errorf("there is no webhook configuration %s: install the chart", m.opts.WebhookConfiguration)
	}
	intermediates := x509.NewCertPool()
	for _, der := range certificate.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(cert)
		}
	}
	for _, webhook := range configuration.Webhooks {
		roots := x509.NewCertPool()
		for _, cert := range readCertificates(webhook.ClientConfig.CABundle) {
			roots.AddCert(cert)
		}
		_, err := certificate.Leaf.Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: intermediates, CurrentTime: m.opts.Clock.Now(),
		})
		if err != nil {
			return fmt.Errorf("webhook %s does not trust the served certificate yet: %w", webhook.Name, err)
		}
	}
	return nil
}
