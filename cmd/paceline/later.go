package main

import (
	"context"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/paceline/paceline/certs"
	"github.com/paceline/paceline/webhook"
)

// lookLater is how often the webhook configurations are read. They change with an installation.
const lookLater = 10 * time.Second

// laterWebhooks knows which webhooks the API server asks after Paceline's. Messages alone depend on it.
type laterWebhooks struct {
	live, cache client.Reader
	all         atomic.Pointer[admissionregistrationv1.MutatingWebhookConfigurationList]
}

// Start reads the configurations until ctx ends. Where that is not allowed, in an installation without rights over
// the cluster, nothing is known of them.
func (l *laterWebhooks) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		var all admissionregistrationv1.MutatingWebhookConfigurationList
		switch err := l.live.List(ctx, &all); {
		case err == nil:
			l.all.Store(&all)
		case !apierrors.IsForbidden(err) && ctx.Err() == nil:
			ctrl.LoggerFrom(ctx).Error(err, "listing webhook configurations")
		}
	}, lookLater)
	return nil
}

// NeedLeaderElection is false: every replica answers requests.
func (l *laterWebhooks) NeedLeaderElection() bool { return false }

// of is for webhook.Options and planner.Options.
func (l *laterWebhooks) of(ctx context.Context, namespace string) []string {
	all := l.all.Load()
	var ns corev1.Namespace
	if all == nil || l.cache.Get(ctx, types.NamespacedName{Name: namespace}, &ns) != nil {
		return nil
	}
	return webhook.Later(certs.DefaultWebhookConfiguration, all.Items, ns.Labels)
}
