package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/paceline/paceline/certs"
	"github.com/paceline/paceline/cmd/paceline/config"
	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
	"github.com/paceline/paceline/planner"
	"github.com/paceline/paceline/webhook"
)

const leaderElectionID = "paceline-leader"

// start wires everything together and runs until ctx ends.
func start(ctx context.Context, kube *rest.Config, cfg config.Config, f flags) error {
	live, err := client.New(kube, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return fmt.Errorf("making client: %w", err)
	}
	certificates, err := certs.New(certs.Options{
		Client: live, Mode: certs.Mode(cfg.Certs.Mode), Namespace: f.namespace,
		SecretName: cfg.Certs.SecretName, Validity: cfg.Certs.Validity,
		ServiceName: cfg.Webhook.ServiceName, URL: cfg.Webhook.URL,
	})
	if err != nil {
		return usageError{err}
	}
	mgr, err := manager(kube, cfg, f, certificates)
	if err != nil {
		return err
	}
	if err := mgr.Add(certificates); err != nil {
		return fmt.Errorf("adding certificates: %w", err)
	}
	if err := register(ctx, mgr, cfg, f); err != nil {
		return err
	}
	if err := checks(mgr, certificates); err != nil {
		return err
	}
	return runUntil(ctx, stopWithin+stopGrace, mgr.Start)
}

func manager(kube *rest.Config, cfg config.Config, f flags, certificates *certs.Manager) (ctrl.Manager, error) {
	electionNamespace := cfg.LeaderElection.Namespace
	if electionNamespace == "" {
		electionNamespace = f.namespace
	}
	metrics := metricsserver.Options{BindAddress: cfg.Metrics.BindAddress, SecureServing: cfg.Metrics.Secure}
	if cfg.Metrics.Secure {
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	mgr, err := ctrl.NewManager(kube, ctrl.Options{
		Scheme:                  clientgoscheme.Scheme,
		Cache:                   caches(),
		Metrics:                 metrics,
		HealthProbeBindAddress:  cfg.Health.BindAddress,
		LeaderElection:          cfg.LeaderElection.Enabled,
		LeaderElectionID:        leaderElectionID,
		LeaderElectionNamespace: electionNamespace,
		// A replica that stops gives leadership back: the next roll need not wait for it to run out.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       ptr.To(stopWithin),
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Port: cfg.Webhook.Port,
			TLSOpts: []func(*tls.Config){func(c *tls.Config) {
				c.GetCertificate = certificates.GetCertificate
				c.MinVersion = tls.VersionTLS12
			}},
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("making manager: %w", err)
	}
	return mgr, nil
}

// caches hold what is read and no more: pods of StatefulSets without their spec, revisions as their
// paced fields, no heartbeats of cluster nodes.
func caches() cache.Options {
	ofSets, err := labels.NewRequirement(appsv1.StatefulSetPodNameLabel, selection.Exists, nil)
	selector := labels.NewSelector()
	if err == nil { // a constant: cannot fail
		selector = selector.Add(*ofSets)
	}
	unreadable := &watchErrors{clock: clock.RealClock{}}
	return cache.Options{
		DefaultWatchErrorHandler: unreadable.handle,
		DefaultTransform:         cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                {Label: selector, Transform: slimPod},
			&appsv1.ControllerRevision{}: {Transform: planner.SlimRevision},
			&coordinationv1.Lease{}: {
				Field: fields.OneTermNotEqualSelector("metadata.namespace", corev1.NamespaceNodeLease),
			},
		},
	}
}

func slimPod(value any) (any, error) {
	if pod, ok := value.(*corev1.Pod); ok {
		pod.ManagedFields, pod.Annotations = nil, nil
		pod.Spec = corev1.PodSpec{}
		pod.Status = corev1.PodStatus{Conditions: pod.Status.Conditions}
	}
	return value, nil
}

func register(ctx context.Context, mgr ctrl.Manager, cfg config.Config, f flags) error {
	for _, object := range []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, object, planner.OwnerIndexName, planner.OwnerIndex); err != nil {
			return fmt.Errorf("indexing by owner: %w", err)
		}
	}
	// The webhook reads these on every replica, also where no reconciler runs.
	for _, object := range []client.Object{&corev1.Namespace{}, &appsv1.StatefulSet{}, &coordinationv1.Lease{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("starting cache: %w", err)
		}
	}
	scope := node.Scope{
		Defaults: node.Cell{
			Percent: cfg.Rollout.DriftUpdateBudgetPercent,
			Pace:    node.Pace(cfg.Rollout.Pace), Gate: node.Gate(cfg.Rollout.Gate),
		},
		Selector: cfg.Nodes.LabelSelector, Namespaces: cfg.Namespaces,
	}
	realClock := clock.RealClock{}
	store := lease.Store{Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Clock: realClock}
	fleet := planner.Fleet{Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Scope: scope}
	later := &laterWebhooks{live: mgr.GetAPIReader(), cache: mgr.GetClient()}
	if err := mgr.Add(later); err != nil {
		return fmt.Errorf("adding the look at webhook configurations: %w", err)
	}
	options := planner.Options{
		Fleet: fleet, Store: store, Later: later.of, Writer: mgr.GetClient(), Events: mgr.GetEventRecorder("paceline"),
		Clock: realClock, Board: &planner.Board{}, Workers: cfg.Planner.Workers,
		Resync: cfg.Rollout.ResyncInterval, Deadline: cfg.Rollout.ProgressDeadline,
	}
	if err := planner.RegisterCell(mgr, options); err != nil {
		return fmt.Errorf("registering cell reconciler: %w", err)
	}
	if err := planner.RegisterNode(mgr, options); err != nil {
		return fmt.Errorf("registering node reconciler: %w", err)
	}
	mgr.GetWebhookServer().Register(webhook.Path, webhook.StatefulSet{Options: webhook.Options{
		Account: f.account, Scope: scope, Cells: cells{fleet}, Slots: store, Lines: fleet, Orphans: fleet,
		Later: later.of, Own: certs.DefaultWebhookConfiguration, Timeout: cfg.Webhook.Timeout * 9 / 10,
	}})
	mgr.GetWebhookServer().Register(webhook.PodPath, webhook.Pod{
		Scope: scope, Cells: cells{fleet}, Slots: store, Sets: fleet, Timeout: cfg.Webhook.Timeout * 9 / 10,
	})
	return nil
}

// cells reads namespaces for the webhook.
type cells struct{ planner.Fleet }

func (c cells) Cell(ctx context.Context, namespace string) (node.Cell, error) {
	cell, _, err := c.Fleet.Cell(ctx, c.Cache, namespace)
	if err != nil { // not in the cache yet
		return c.CellLive(ctx, namespace)
	}
	return cell, nil
}

func (c cells) CellLive(ctx context.Context, namespace string) (node.Cell, error) {
	cell, _, err := c.Fleet.Cell(ctx, c.Live, namespace)
	return cell, err
}

// checks make a replica ready once its certificate is loaded and trusted, its caches are filled and
// its webhook server answers.
func checks(mgr ctrl.Manager, certificates *certs.Manager) error {
	synced := func(r *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(r.Context()) {
			return errors.New("caches are not filled yet")
		}
		return nil
	}
	return errors.Join(
		mgr.AddHealthzCheck("alive", func(*http.Request) error { return nil }),
		mgr.AddReadyzCheck("certificates", certificates.Ready),
		mgr.AddReadyzCheck("caches", synced),
		mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()),
	)
}
