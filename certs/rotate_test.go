package certs

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const day = 24 * time.Hour

var begin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func options() Options {
	return Options{Namespace: "paceline-system", ServiceName: "paceline", Validity: 90 * day}
}

// issued is a fresh state of which every webhook trusts everything.
func issued(t *testing.T) state {
	t.Helper()
	m, err := apply(Issue, state{}, begin, options())
	require.NoError(t, err)
	return state{m, m.bundle()}
}

func TestNextAcrossTheWholeLife(t *testing.T) {
	s, opts := issued(t), options()
	expect := func(after time.Duration, want Action) {
		t.Helper()
		require.Equal(t, want, next(s, begin.Add(after), opts))
		m, err := apply(want, s, begin.Add(after), opts)
		require.NoError(t, err)
		s.material = m
		if want != StageNext && want != None { // injecting is left to the test while the next one waits
			s.trusted = m.bundle()
		}
	}
	expect(0, None)
	expect(59*day, None)
	expect(61*day, RenewLeaf)
	require.Equal(t, begin.Add(151*day), s.leaf.cert.NotAfter)
	expect(61*day, None)
	expect(300*day, RenewLeaf) // past the expiry of the leaf
	expect(599*day, RenewLeaf)
	first := s.authority.cert
	expect(601*day, StageNext)
	expect(601*day, None)
	expect(601*day+time.Hour, None) // not trusted: whatever time passes, the leaf stays with the first
	require.NoError(t, s.leaf.cert.CheckSignatureFrom(first))
	s.trusted = s.bundle()
	require.Equal(t, None, next(s, begin.Add(601*day+30*time.Second), opts), "API servers have not had the time to see it")
	expect(601*day+time.Hour, SwitchToNext)
	require.NotEqual(t, first, s.authority.cert)
	require.NoError(t, s.leaf.cert.CheckSignatureFrom(s.authority.cert))
	require.True(t, contains(s.bundle(), first), "another replica may still serve under the first authority")
	expect(602*day, None)
	expect(603*day, DropPrevious)
	require.Equal(t, []*x509.Certificate{s.authority.cert}, s.bundle())
	expect(603*day, None)
}

func TestNext(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*state, *Options)
		after  time.Duration
		want   Action
	}{
		"nothing is due":                            {func(*state, *Options) {}, 0, None},
		"no secret":                                 {func(s *state, _ *Options) { *s = state{} }, 0, Issue},
		"no authority":                              {func(s *state, _ *Options) { s.authority = nil }, 0, Issue},
		"an authority that is none":                 {func(s *state, _ *Options) { s.authority = s.leaf }, 0, Issue},
		"an expired authority":                      {func(*state, *Options) {}, 901 * day, Issue},
		"an authority from the future":              {func(*state, *Options) {}, -2 * time.Hour, Issue},
		"no certificate":                            {func(s *state, _ *Options) { s.leaf = nil }, 0, RenewLeaf},
		"an expired certificate":                    {func(*state, *Options) {}, 91 * day, RenewLeaf},
		"a certificate of another service":          {func(_ *state, o *Options) { o.ServiceName = "other" }, 0, RenewLeaf},
		"a certificate for another host":            {func(_ *state, o *Options) { o.URL = "https://192.0.2.1:9443" }, 0, RenewLeaf},
		"a certificate of a foreign authority":      {func(s *state, _ *Options) { s.leaf = issued(t).leaf }, 0, RenewLeaf},
		"a next authority nobody trusts waits":      {func(s *state, _ *Options) { s.next = issued(t).authority }, day, None},
		"a trusted next authority signs":            {trustedNext(t), day, SwitchToNext},
		"an expired next authority is staged again": {expiredNext(t), 610 * day, StageNext},
	} {
		t.Run(name, func(t *testing.T) {
			s, opts := issued(t), options()
			test.change(&s, &opts)
			require.Equal(t, test.want, next(s, begin.Add(test.after), opts))
		})
	}
}

func trustedNext(t *testing.T) func(*state, *Options) {
	return func(s *state, o *Options) {
		authority, err := issueAuthority(begin, o.Validity)
		require.NoError(t, err)
		s.next = authority
		s.trusted = s.bundle()
	}
}

func expiredNext(t *testing.T) func(*state, *Options) {
	return func(s *state, o *Options) {
		m, err := apply(RenewLeaf, *s, begin.Add(600*day), *o)
		require.NoError(t, err)
		m.next, err = issueAuthority(begin.Add(-901*day), o.Validity)
		require.NoError(t, err)
		s.material, s.trusted = m, m.bundle()
	}
}

func TestACertificateNeverOutlivesItsAuthorityAndIsNotRenewedForNothing(t *testing.T) {
	s, opts := issued(t), options()
	late := begin.Add(880 * day)
	m, err := apply(RenewLeaf, s, late, opts)
	require.NoError(t, err)
	require.Equal(t, s.authority.cert.NotAfter, m.leaf.cert.NotAfter)
	s.material = m
	require.Equal(t, StageNext, next(s, begin.Add(899*day), opts))
}

func TestAValidityOfTwoMinutesRotatesToo(t *testing.T) {
	opts := options()
	opts.Validity = 2 * time.Minute
	var s state
	counts := map[Action]int{}
	served := []*x509.Certificate{}
	for at := time.Duration(0); at < 2*time.Hour; at += 5 * time.Second {
		now := begin.Add(at)
		action := next(s, now, opts)
		counts[action]++
		before := s.trusted
		m, err := apply(action, s, now, opts)
		require.NoError(t, err)
		s.material, s.trusted = m, m.bundle()
		require.True(t, validAt(m.leaf.cert, now))
		if action == SwitchToNext {
			require.True(t, contains(before, m.authority.cert), "it signs only after it was trusted")
		}
		require.LessOrEqual(t, len(m.bundle()), 3)
		served = append(served, m.leaf.cert)
		if len(served) > 2 { // a replica that lags two looks behind is still trusted
			require.True(t, signedByOneOf(served[len(served)-3], m.bundle()))
		}
	}
	require.Equal(t, 1, counts[Issue])
	require.Positive(t, counts[RenewLeaf])
	require.InDelta(t, 9, counts[SwitchToNext], 2) // an authority of 20 minutes is replaced after two thirds
	require.Equal(t, counts[StageNext], counts[SwitchToNext])
	require.Equal(t, counts[DropPrevious], counts[SwitchToNext])
}

func signedByOneOf(leaf *x509.Certificate, authorities []*x509.Certificate) bool {
	for _, authority := range authorities {
		if leaf.CheckSignatureFrom(authority) == nil {
			return true
		}
	}
	return false
}

func TestTheCertificateNamesWhatTheAPIServerCalls(t *testing.T) {
	for name, test := range map[string]struct {
		opts Options
		want []string
	}{
		"the service": {Options{ServiceName: "paceline", Namespace: "ns", Validity: day},
			[]string{"paceline", "paceline.ns", "paceline.ns.svc", "paceline.ns.svc.cluster.local"}},
		"the host of the URL": {Options{URL: "https://hooks.example:8443", Validity: day}, []string{"hooks.example"}},
		"the IP of the URL":   {Options{URL: "https://127.0.0.1:9443/base", Validity: day}, []string{"127.0.0.1"}},
		"an IPv6 of the URL":  {Options{URL: "https://[::1]:9443", Validity: day}, []string{"::1"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := apply(Issue, state{}, begin, test.opts)
			require.NoError(t, err)
			roots := x509.NewCertPool()
			roots.AddCert(m.authority.cert)
			for _, name := range test.want {
				_, err := m.leaf.cert.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: begin})
				require.NoError(t, err, name)
			}
			require.Error(t, m.leaf.cert.VerifyHostname("paceline.other.svc"))
		})
	}
}
