package certs

import (
	"crypto/x509"
	"slices"
	"time"
)

// Action is the one change that the Secret needs next.
type Action string

// The actions, in the order in which a long life meets them.
const (
	None         Action = "none"
	Issue        Action = "issue"          // an authority and a certificate from nothing
	RenewLeaf    Action = "renew-leaf"     // a certificate signed by the present authority
	StageNext    Action = "stage-next"     // the next authority, to be trusted before it signs
	SwitchToNext Action = "switch-to-next" // the next authority signs from here on
	DropPrevious Action = "drop-previous"  // the one before is trusted no longer
)

// maxPrevious bounds the caBundle when a Secret is deleted again and again; the newest come first.
const maxPrevious = 5

// state is what a decision is made from.
type state struct {
	material
	// trusted are the authorities that stand in the caBundle of every webhook.
	trusted []*x509.Certificate
}

// next decides what the Secret needs at now. It writes nothing and knows no clock, so a test walks
// through years of it. The order matters: what is broken first, then what expires, then rotation.
func next(s state, now time.Time, opts Options) Action {
	switch {
	case s.authority == nil || !s.authority.cert.IsCA || !validAt(s.authority.cert, now):
		return Issue
	case leafIsDue(s, now, opts):
		return RenewLeaf
	case s.nextUsable(now) && contains(s.trusted, s.next.cert) && settled(s.next.cert, now, opts):
		return SwitchToNext
	case !s.nextUsable(now) && pastTwoThirds(s.authority.cert, now):
		return StageNext
	case len(s.previous) > 0 && previousIsDone(s, now):
		return DropPrevious
	default:
		return None
	}
}

func leafIsDue(s state, now time.Time, opts Options) bool {
	if s.leaf == nil {
		return true
	}
	leaf, authority := s.leaf.cert, s.authority.cert
	if !validAt(leaf, now) || leaf.CheckSignatureFrom(authority) != nil {
		return true
	}
	for _, name := range opts.names() {
		if leaf.VerifyHostname(name) != nil {
			return true
		}
	}
	// One that ends with its authority gains nothing from being issued again.
	return pastTwoThirds(leaf, now) && leaf.NotAfter.Before(authority.NotAfter)
}

func (s state) nextUsable(now time.Time) bool {
	return s.next != nil && s.next.cert.IsCA && validAt(s.next.cert, now)
}

// settled gives every API server the time to see the caBundle that was just injected.
func settled(nextAuthority *x509.Certificate, now time.Time, opts Options) bool {
	return now.After(nextAuthority.NotBefore.Add(backdate(opts.Validity) + settleTime(opts.Validity)))
}

func settleTime(validity time.Duration) time.Duration {
	return min(time.Minute, validity/20)
}

// previousIsDone says that nobody serves what a previous authority signed: it expired, or every replica
// has had long since to read the present certificate. A renewal starts that time anew; a third of a
// life is shorter than the two thirds between renewals, so it ends.
func previousIsDone(s state, now time.Time) bool {
	leaf := s.leaf.cert
	overlap := min(24*time.Hour, leaf.NotAfter.Sub(leaf.NotBefore)/3)
	if now.After(leaf.NotBefore.Add(overlap)) {
		return true
	}
	return !slices.ContainsFunc(s.previous, func(cert *x509.Certificate) bool { return validAt(cert, now) })
}

// apply makes the material that an action asks for.
func apply(action Action, s state, now time.Time, opts Options) (material, error) {
	m := s.material
	var err error
	switch action {
	case Issue:
		m = material{previous: ownAuthorities(s.trusted, now)}
		if m.authority, err = issueAuthority(now, opts.Validity); err != nil {
			return m, err
		}
		m.leaf, err = issueLeaf(now, opts, m.authority)
	case RenewLeaf:
		m.leaf, err = issueLeaf(now, opts, m.authority)
	case StageNext:
		m.next, err = issueAuthority(now, opts.Validity)
	case SwitchToNext:
		m.previous = []*x509.Certificate{m.authority.cert}
		m.authority, m.next = m.next, nil
		m.leaf, err = issueLeaf(now, opts, m.authority)
	case DropPrevious:
		m.previous = nil
	case None:
	}
	return m, err
}

// ownAuthorities picks the authorities of ours that webhooks trust already: a replica that is still
// serving under one of them must not lose that trust because the Secret was lost.
func ownAuthorities(trusted []*x509.Certificate, now time.Time) []*x509.Certificate {
	var own []*x509.Certificate
	for _, cert := range trusted {
		if isOwnAuthority(cert) && validAt(cert, now) {
			own = append(own, cert)
		}
	}
	return own[:min(len(own), maxPrevious)]
}

func validAt(cert *x509.Certificate, now time.Time) bool {
	return !now.Before(cert.NotBefore) && now.Before(cert.NotAfter)
}

func pastTwoThirds(cert *x509.Certificate, now time.Time) bool {
	return now.After(cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore) * 2 / 3))
}

func contains(certificates []*x509.Certificate, cert *x509.Certificate) bool {
	return slices.ContainsFunc(certificates, cert.Equal)
}
