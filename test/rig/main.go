// Command rig builds, starts and stops a real Kubernetes control plane without containers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/paceline/paceline/test/rig/controlplane"
)

const usage = `usage:
  rig up --dir D [--kubernetes 1.37.2] [--ready-after 3s] [--helm 4,3] [--cluster-nodes 4]
  rig down --dir D
  rig build [--kubernetes 1.37.2] [--helm 4,3]

up starts a control plane whose files are in D; source D/env to use it. The processes stay until down.
build only fills the cache of binaries.
`

var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "rig:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet("rig "+args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {}
	options := controlplane.Options{Detach: true, Progress: stderr}
	flags.StringVar(&options.Dir, "dir", "", "folder of the control plane")
	flags.StringVar(&options.Version, "kubernetes", "", "Kubernetes release; default "+controlplane.DefaultVersion)
	flags.DurationVar(&options.ReadyAfter, "ready-after", 3*time.Second, "how long a pod takes to become ready")
	flags.IntVar(&options.ClusterNodes, "cluster-nodes", 0, "number of cluster nodes")
	kubeconfig := flags.String("kubeconfig", "", "of the kubelets; for reap alone, which up starts")
	helm := flags.String("helm", "4", "major versions of Helm, with commas between")
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() > 0 {
		return errUsage
	}
	if args[0] == "reap" && *kubeconfig != "" {
		return controlplane.Reap(ctx, *kubeconfig)
	}
	options.HelmVersions = strings.FieldsFunc(*helm, func(r rune) bool { return r == ',' })
	switch {
	case args[0] == "build":
		return controlplane.Build(ctx, options)
	case args[0] == "down" && options.Dir != "":
		return controlplane.Down(options.Dir)
	case args[0] == "up" && options.Dir != "":
		return up(ctx, options, stdout)
	default:
		return errUsage
	}
}

func up(ctx context.Context, options controlplane.Options, stdout io.Writer) error {
	started := time.Now()
	cp, err := controlplane.Up(ctx, options)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "Kubernetes %s is up after %s: source %s/env\n", cp.Version, time.Since(started).Round(10*time.Millisecond), cp.Dir)
	return err
}
