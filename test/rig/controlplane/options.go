package controlplane

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// DefaultVersion is the Kubernetes release that a control plane has unless told otherwise, by Options or by the
// environment variable EnvVersion.
const (
	DefaultVersion = "1.37.2"
	EnvVersion     = "PACELINE_KUBERNETES"
)

// Options says what control plane to start.
type Options struct {
	// Dir receives all files; it is made if it does not exist. Required.
	Dir string
	// Version is the Kubernetes release; its build module must exist. Default: that of EnvVersion, else DefaultVersion.
	Version string
	// ReadyAfter is how long a started pod takes until it is ready. Default 1 s.
	ReadyAfter time.Duration
	// ClusterNodes is the number of cluster nodes. Default 4.
	ClusterNodes int
	// HelmVersions are the major versions of Helm to have. Default 4 only. The first is "helm".
	HelmVersions []string
	// Detach lets the processes outlive the caller; Down by the folder ends them.
	Detach bool
	// Still starts etcd and kube-apiserver alone: no controllers, scheduler or kubelets. What is stored
	// then changes by its writer's requests and by nothing else.
	Still bool
	// Controllers are run by kube-controller-manager beside those in the default list.
	Controllers []string
	// Manager sets kube-controller-manager's limits. Default FastManager.
	Manager ManagerLimits
	// NoAudit switches the audit log off, for benchmarks.
	NoAudit bool
	// Verbosity is the log level of all components (klog's -v).
	Verbosity int
	// Progress receives a line for what takes long; nil keeps quiet.
	Progress io.Writer
}

// ManagerLimits are kube-controller-manager's request limits and its StatefulSet workers.
type ManagerLimits struct {
	QPS             int
	Burst           int
	StatefulSetSync int
}

// StockManager has the limits that kube-controller-manager ships with: the bottleneck beyond a few
// dozen nodes.
func StockManager() ManagerLimits { return ManagerLimits{QPS: 20, Burst: 30, StatefulSetSync: 5} }

// FastManager has limits that a fleet of some hundred nodes does not reach.
func FastManager() ManagerLimits { return ManagerLimits{QPS: 1000, Burst: 2000, StatefulSetSync: 50} }

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, fmt.Errorf("control plane: Dir is not set")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("control plane: folder %s: %w", o.Dir, err)
	}
	o.Dir = dir
	o.Version = cmp.Or(o.Version, os.Getenv(EnvVersion), DefaultVersion)
	if o.ReadyAfter == 0 {
		o.ReadyAfter = time.Second
	}
	if o.ClusterNodes == 0 {
		o.ClusterNodes = 4
	}
	if o.HelmVersions == nil {
		o.HelmVersions = []string{"4"}
	}
	if o.Manager == (ManagerLimits{}) {
		o.Manager = FastManager()
	}
	return o, nil
}
