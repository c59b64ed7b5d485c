// Package controlplane runs a real Kubernetes control plane as plain processes: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, and kwok, which plays the kubelets.
// There are no containers: a pod becomes ready because a Stage says so.
//
// Each control plane has a folder and ports of its own, so that several can stand side by side, and
// Down ends exactly the processes that Up started.
package controlplane
