package controlplane

import (
	"fmt"
	"path/filepath"
	"strings"
)

// component is one process of the control plane.
type component struct {
	name    string
	program string // name of the binary
	args    []string
	env     []string
}

// layout is what the components' command lines are made of.
type layout struct {
	Options
	certificates
	tokenFile                 string
	etcdPort, peerPort, port  int
	stages, scheduler, policy string // configuration files
}

func (l layout) server() string { return fmt.Sprintf("https://127.0.0.1:%d", l.port) }

func (l layout) conf(name string) string { return filepath.Join(l.Dir, "conf", name) }

func (l layout) verbosity() string { return fmt.Sprintf("-v=%d", l.Verbosity) }

func (l layout) etcd() component {
	client := fmt.Sprintf("http://127.0.0.1:%d", l.etcdPort)
	peer := fmt.Sprintf("http://127.0.0.1:%d", l.peerPort)
	return component{name: "etcd", program: "etcd", args: []string{
		"--name=rig", "--data-dir=" + filepath.Join(l.Dir, "etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=rig=" + peer,
		"--unsafe-no-fsync", "--log-level=warn", "--quota-backend-bytes=4294967296",
	}}
}

func (l layout) apiserver() component {
	args := []string{
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", l.etcdPort),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", l.port),
		"--tls-cert-file=" + l.serving, "--tls-private-key-file=" + l.servingKey,
		"--cert-dir=" + l.conf("apiserver"),
		"--token-auth-file=" + l.tokenFile, "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.accountPub, "--service-account-signing-key-file=" + l.accountKey,
		"--service-cluster-ip-range=10.0.0.0/16", "--endpoint-reconciler-type=none",
		"--enable-admission-plugins=ServiceAccount", "--enable-aggregator-routing=true",
		"--profiling=false", l.verbosity(),
	}
	if !l.NoAudit {
		args = append(args, "--audit-policy-file="+l.policy, "--audit-log-path="+filepath.Join(l.Dir, "audit.log"),
			"--audit-log-maxsize=4096")
	}
	return component{name: "kube-apiserver", program: "kube-apiserver", args: args, env: []string{"GOGC=200"}}
}

// managerControllers are those that StatefulSets, namespaces and access need. The node lifecycle
// controller is not among them: the rig's cluster nodes never fail.
func managerControllers() []string {
	return []string{
		"statefulset-controller", "replicaset-controller", "deployment-controller", "disruption-controller",
		"namespace-controller", "serviceaccount-controller", "serviceaccount-token-controller",
		"root-ca-certificate-publisher-controller", "clusterrole-aggregation-controller",
		"garbage-collector-controller", "endpointslice-controller", "persistentvolume-binder-controller",
		"persistentvolumeclaim-protection-controller", "validatingadmissionpolicy-status-controller",
	}
}

func (l layout) manager() component {
	controllers := strings.Join(append(managerControllers(), l.Controllers...), ",")
	return component{name: "kube-controller-manager", program: "kube-controller-manager", args: []string{
		"--kubeconfig=" + l.conf("kube-controller-manager.kubeconfig"),
		"--controllers=" + controllers, "--use-service-account-credentials=true",
		"--service-account-private-key-file=" + l.accountKey, "--root-ca-file=" + l.ca,
		"--leader-elect=false", "--secure-port=0", "--profiling=false",
		fmt.Sprintf("--kube-api-qps=%d", l.Manager.QPS), fmt.Sprintf("--kube-api-burst=%d", l.Manager.Burst),
		fmt.Sprintf("--concurrent-statefulset-syncs=%d", l.Manager.StatefulSetSync),
		l.verbosity(),
	}, env: []string{"GOGC=200"}}
}

func (l layout) schedulerProcess() component {
	return component{name: "kube-scheduler", program: "kube-scheduler", args: []string{
		"--config=" + l.scheduler, "--secure-port=0", l.verbosity(),
	}}
}

func (l layout) kubelets() component {
	return component{name: "kwok", program: "kwok", args: []string{
		"--kubeconfig=" + l.conf("kwok.kubeconfig"), "--config=" + l.stages,
		"--manage-all-nodes=true", "--node-lease-duration-seconds=0", "--cidr=10.64.0.0/10", l.verbosity(),
	}}
}
