package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var (
	secretKey        = client.ObjectKey{Namespace: "paceline-system", Name: "paceline-certs"}
	configurationKey = client.ObjectKey{Name: DefaultWebhookConfiguration}
)

// store is an object store that counts writes and can let another writer in before one.
type store struct {
	client.Client
	mutex  sync.Mutex
	writes int
	before func(ctx context.Context, inner client.WithWatch)
}

func newStore(t *testing.T, objects ...client.Object) *store {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, admissionregistrationv1.AddToScheme(scheme))
	s := &store{}
	s.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, inner client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			s.write(ctx, inner)
			return inner.Create(ctx, object, opts...)
		},
		Update: func(ctx context.Context, inner client.WithWatch, object client.Object, opts ...client.UpdateOption) error {
			s.write(ctx, inner)
			return inner.Update(ctx, object, opts...)
		},
		Patch: func(ctx context.Context, inner client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			s.write(ctx, inner)
			return inner.Patch(ctx, object, patch, opts...)
		},
	}).Build()
	return s
}

func (s *store) write(ctx context.Context, inner client.WithWatch) {
	s.mutex.Lock()
	s.writes++
	before := s.before
	s.before = nil
	s.mutex.Unlock()
	if before != nil {
		before(ctx, inner)
	}
}

func webhooks() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: DefaultWebhookConfiguration},
		Webhooks: []admissionregistrationv1.MutatingWebhook{
			{Name: "statefulsets.paceline.io"}, {Name: "unpaced.statefulsets.paceline.io"},
		},
	}
}

func replica(t *testing.T, s *store, clock *clocktesting.FakeClock, change ...func(*Options)) *Manager {
	t.Helper()
	opts := options()
	opts.Client, opts.Clock, opts.SecretName = s, clock, secretKey.Name
	for _, each := range change {
		each(&opts)
	}
	m, err := New(opts)
	require.NoError(t, err)
	return m
}

// settle syncs until nothing is raced any more.
func settle(t *testing.T, m *Manager) {
	t.Helper()
	for {
		err := m.sync(t.Context())
		if !errors.Is(err, errRaced) {
			require.NoError(t, err)
			return
		}
	}
}

func servedBy(t *testing.T, m *Manager) *x509.Certificate {
	t.Helper()
	certificate, err := m.GetCertificate(nil)
	require.NoError(t, err)
	return certificate.Leaf
}

func TestReadyOnlyOnceServedAndTrusted(t *testing.T) {
	s := newStore(t)
	m := replica(t, s, clocktesting.NewFakeClock(begin))
	require.ErrorContains(t, m.Ready(nil), "no webhook certificate is loaded yet")
	_, err := m.GetCertificate(nil)
	require.Error(t, err)
	settle(t, m)
	require.ErrorContains(t, m.Ready(nil), "there is no webhook configuration zz-paceline")
	require.NoError(t, s.Create(t.Context(), webhooks()))
	settle(t, m)
	require.NoError(t, m.Ready(nil))
	expiry, loaded := m.Expiry()
	require.True(t, loaded)
	require.Equal(t, begin.Add(90*day), expiry)
}

func TestIdleWritesNothing(t *testing.T) {
	s := newStore(t, webhooks())
	clock := clocktesting.NewFakeClock(begin)
	m := replica(t, s, clock)
	settle(t, m)
	require.Equal(t, 2, s.writes, "one Secret, one caBundle for all webhooks")
	for range 100 {
		clock.Step(time.Minute)
		settle(t, m)
		settle(t, replica(t, s, clock))
	}
	require.Equal(t, 2, s.writes)
}

func TestReplicasThatRaceEndAtOneAuthority(t *testing.T) {
	clock := clocktesting.NewFakeClock(begin)
	s := newStore(t, webhooks())
	a, b := replica(t, s, clock), replica(t, s, clock)
	other := func(context.Context, client.WithWatch) { settle(t, b) }
	for _, step := range []time.Duration{0, 61 * day, 540 * day, time.Hour, 2 * day} {
		clock.Step(step)
		for range 3 { // several changes may be due, one a look; b does each between a's read and its write
			s.before = other
			settle(t, a)
			s.before = nil
		}
		settle(t, b)
		require.Equal(t, servedBy(t, a), servedBy(t, b))
		require.NoError(t, a.Ready(nil))
		require.NoError(t, b.Ready(nil))
	}
}

func TestAnOlderLookCannotTakeTrustAway(t *testing.T) {
	clock := clocktesting.NewFakeClock(begin)
	s := newStore(t, webhooks())
	a, b := replica(t, s, clock), replica(t, s, clock)
	settle(t, a)
	// The caBundle is lost; before a puts the old one back, b has staged and injected the next authority.
	var configuration admissionregistrationv1.MutatingWebhookConfiguration
	require.NoError(t, s.Get(t.Context(), configurationKey, &configuration))
	configuration.Webhooks[1].ClientConfig.CABundle = nil
	require.NoError(t, s.Update(t.Context(), &configuration))
	s.before = func(context.Context, client.WithWatch) {
		clock.Step(601 * day)
		settle(t, b)
		settle(t, b)
	}
	require.ErrorIs(t, a.sync(t.Context()), errRaced)
	require.NoError(t, s.Get(t.Context(), configurationKey, &configuration))
	require.Len(t, trustedByAll(&configuration), 2)
}

func TestADamagedSecretHeals(t *testing.T) {
	for name, damage := range map[string]func(*corev1.Secret){
		"no data":             func(s *corev1.Secret) { s.Data = nil },
		"a cut certificate":   func(s *corev1.Secret) { s.Data["tls.crt"] = s.Data["tls.crt"][:100] },
		"no key":              func(s *corev1.Secret) { delete(s.Data, "tls.key") },
		"another's key":       func(s *corev1.Secret) { s.Data["tls.key"] = s.Data["ca.key"] },
		"no authority":        func(s *corev1.Secret) { delete(s.Data, "ca.crt") },
		"no authority's key":  func(s *corev1.Secret) { s.Data["ca.key"] = []byte("x") },
		"the leaf as the CA":  func(s *corev1.Secret) { s.Data["ca.crt"], s.Data["ca.key"] = s.Data["tls.crt"], s.Data["tls.key"] },
		"a damaged next":      func(s *corev1.Secret) { s.Data["ca-next.crt"] = []byte("x") },
		"a damaged previous":  func(s *corev1.Secret) { s.Data["ca-previous.crt"] = []byte("x") },
		"somebody else's key": func(s *corev1.Secret) { s.Data["extra"] = []byte("stays") },
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(begin)
			s := newStore(t, webhooks())
			m := replica(t, s, clock)
			settle(t, m)
			var secret corev1.Secret
			require.NoError(t, s.Get(t.Context(), secretKey, &secret))
			damage(&secret)
			require.NoError(t, s.Update(t.Context(), &secret))
			settle(t, m)
			require.NoError(t, m.Ready(nil))

			fresh := replica(t, s, clock)
			settle(t, fresh)
			require.NoError(t, fresh.Ready(nil))
			settle(t, m)
			require.Equal(t, servedBy(t, fresh), servedBy(t, m))
			require.NoError(t, s.Get(t.Context(), secretKey, &secret))
			if name == "somebody else's key" {
				require.Equal(t, "stays", string(secret.Data["extra"]))
			}
		})
	}
}

func TestAReplacedAuthorityIsServedOnlyOnceTrusted(t *testing.T) {
	clock := clocktesting.NewFakeClock(begin)
	s := newStore(t, webhooks())
	a, b := replica(t, s, clock), replica(t, s, clock)
	settle(t, a)
	settle(t, b)
	old := servedBy(t, b)
	require.NoError(t, s.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name}}))

	// a issues anew; its caBundle is not written yet when b reads the new Secret.
	held, err := a.readSecret(t.Context())
	require.NoError(t, err)
	configuration, err := a.readConfiguration(t.Context())
	require.NoError(t, err)
	changed, err := a.keepSecret(t.Context(), held, state{trusted: trustedByAll(configuration)})
	require.NoError(t, err)
	b.serve(changed, configuration)
	require.Equal(t, old, servedBy(t, b), "the API server would refuse the new one")
	require.NoError(t, b.Ready(nil))

	settle(t, b)
	require.NotEqual(t, old, servedBy(t, b))
	require.NoError(t, b.Ready(nil))
	configuration, err = a.readConfiguration(t.Context())
	require.NoError(t, err)
	require.NoError(t, a.trust(a.served.Load().certificate, configuration), "a still serves the old one and is trusted")
}

func TestAnExpiredCertificateIsNotReadyUntilRenewed(t *testing.T) {
	clock := clocktesting.NewFakeClock(begin)
	m := replica(t, newStore(t, webhooks()), clock)
	settle(t, m)
	clock.Step(91 * day)
	require.ErrorContains(t, m.Ready(nil), "expired")
	settle(t, m)
	require.NoError(t, m.Ready(nil))
	clock.Step(2000 * day)
	settle(t, m)
	require.NoError(t, m.Ready(nil), "past the life of the authority too")
}

func TestCertManagerModeWritesNothing(t *testing.T) {
	clock := clocktesting.NewFakeClock(begin)
	s := newStore(t)
	m := replica(t, s, clock, func(o *Options) { o.Mode = CertManager })
	settle(t, m)
	require.ErrorContains(t, m.Ready(nil), "no webhook certificate is loaded yet")

	issuer := replica(t, newStore(t, webhooks()), clock)
	settle(t, issuer)
	var secret corev1.Secret
	require.NoError(t, issuer.opts.Client.Get(t.Context(), secretKey, &secret))
	secret.ResourceVersion = ""
	require.NoError(t, s.Create(t.Context(), &secret))
	require.NoError(t, s.Create(t.Context(), webhooks()))
	s.writes = 0
	settle(t, m)
	require.ErrorContains(t, m.Ready(nil), "does not trust")
	var configuration admissionregistrationv1.MutatingWebhookConfiguration
	require.NoError(t, s.Get(t.Context(), configurationKey, &configuration))
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].ClientConfig.CABundle = secret.Data["ca.crt"]
	}
	require.NoError(t, s.Update(t.Context(), &configuration))
	s.writes = 0
	clock.Step(61 * day)
	settle(t, m)
	require.NoError(t, m.Ready(nil))
	require.Zero(t, s.writes)
}

func TestStartEndsWithItsContext(t *testing.T) {
	clock := clocktesting.NewFakeClock(begin)
	m := replica(t, newStore(t, webhooks()), clock)
	require.False(t, m.NeedLeaderElection())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- m.Start(ctx) }()
	require.Eventually(t, func() bool { return m.Ready(nil) == nil && clock.HasWaiters() }, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	s := newStore(t)
	for name, opts := range map[string]Options{
		"no client":        {Namespace: "a", SecretName: "b", ServiceName: "c"},
		"no namespace":     {Client: s, SecretName: "b", ServiceName: "c"},
		"no secret":        {Client: s, Namespace: "a", ServiceName: "c"},
		"nothing to call":  {Client: s, Namespace: "a", SecretName: "b"},
		"a URL of no host": {Client: s, Namespace: "a", SecretName: "b", URL: "https:///x"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(opts)
			require.Error(t, err)
		})
	}
}
