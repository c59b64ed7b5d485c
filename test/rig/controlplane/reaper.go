package controlplane

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

// terminationDelay is how long a pod that is being deleted takes to stop.
const terminationDelay = 200 * time.Millisecond

// Reap plays the part of the kubelets that ends pods: what is being deleted goes after a moment. It
// names the UID. kwok can do this too, but by name alone: under load it also killed the pod that had
// come instead.
func Reap(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubelets' kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the kubelets' client: %w", err)
	}
	queue := workqueue.NewTypedDelayingQueue[cache.ObjectName]()
	defer queue.ShutDown()
	informer := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	enqueue := func(value any) {
		if pod, ok := value.(*corev1.Pod); ok && pod.DeletionTimestamp != nil {
			queue.AddAfter(cache.MetaObjectToName(pod), terminationDelay)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, value any) { enqueue(value) },
	}); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	go informer.RunWithContext(ctx)
	for range 4 {
		go reapAll(ctx, client, informer.GetStore(), queue)
	}
	<-ctx.Done()
	return nil
}

func reapAll(ctx context.Context, client kubernetes.Interface, store cache.Store, queue workqueue.TypedDelayingInterface[cache.ObjectName]) {
	for {
		name, shutdown := queue.Get()
		if shutdown {
			return
		}
		if err := reap(ctx, client, store, name); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "ending pod", name, ":", err)
			queue.AddAfter(name, terminationDelay)
		}
		queue.Done(name)
	}
}

func reap(ctx context.Context, client kubernetes.Interface, store cache.Store, name cache.ObjectName) error {
	value, exists, err := store.GetByKey(name.String())
	if err != nil || !exists {
		return err
	}
	pod, ok := value.(*corev1.Pod)
	if !ok || pod.DeletionTimestamp == nil || len(pod.Finalizers) > 0 {
		return nil
	}
	err = client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// startReaper starts Reap: in this process, or where the control plane outlives it, in one of its own.
func (cp *ControlPlane) startReaper(ctx context.Context, l layout) error {
	kubeconfig := l.conf("kwok.kubeconfig")
	if !l.Detach {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cp.stopReaper = cancel
		go func() {
			if err := Reap(ctx, kubeconfig); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	cp.paths["reaper"] = self
	return cp.start(component{name: "reaper", program: "reaper", args: []string{"reap", "--kubeconfig", kubeconfig}})
}
