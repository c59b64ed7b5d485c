package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/paceline/paceline/cmd/paceline/config"
)

// flags are the controller's command line; everything else is in the configuration file.
type flags struct {
	config, kubeconfig, namespace, account string
	verbose                                bool
}

func controllerCommand() *cobra.Command {
	var f flags
	command := &cobra.Command{
		Use:   "controller",
		Short: "Run the admission webhook and the reconcilers",
		Args: func(c *cobra.Command, args []string) error {
			if err := cobra.NoArgs(c, args); err != nil {
				return usageError{err}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return run(c.Context(), f) },
	}
	command.Flags().StringVar(&f.config, "config", "/etc/paceline/config.yaml", "configuration file")
	command.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; empty: the pod's service account")
	command.Flags().StringVar(&f.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "Paceline's own namespace")
	command.Flags().StringVar(&f.account, "account", "", "user name of Paceline's own account; empty: whom the API server takes this process for")
	command.Flags().BoolVar(&f.verbose, "verbose", false, "log every admission and every look")
	return command
}

func run(ctx context.Context, f flags) error {
	ctrl.SetLogger(zap.New(zap.UseDevMode(false), zap.Level(level(f.verbose)), zap.StacktraceLevel(zapcore.PanicLevel)))
	cfg, err := config.Load(f.config)
	if err != nil {
		return usageError{err}
	}
	if f.namespace == "" {
		return usageError{errors.New("want --namespace or the environment variable POD_NAMESPACE: where Paceline keeps its Secret and its leader election")}
	}
	kube, err := restConfig(f.kubeconfig)
	if err != nil {
		return usageError{err}
	}
	if f.account == "" {
		if f.account, err = whoAmI(ctx, kube); err != nil {
			return err
		}
	}
	return start(ctx, kube, cfg, f)
}

func restConfig(path string) (*rest.Config, error) {
	load := rest.InClusterConfig
	if path != "" {
		load = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", path) }
	}
	kube, err := load()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	// The API server's own priority and fairness limits us: a FlowSchema of the chart says how.
	kube.QPS = -1
	kube.UserAgent = "paceline"
	return kube, nil
}

// whoAmI asks the API server for the user name of this process.
func whoAmI(ctx context.Context, kube *rest.Config) (string, error) {
	api, err := client.New(kube, client.Options{})
	if err != nil {
		return "", fmt.Errorf("making client: %w", err)
	}
	var review authenticationv1.SelfSubjectReview
	if err := api.Create(ctx, &review); err != nil {
		return "", fmt.Errorf("asking the API server for the own user name (or give --account): %w", err)
	}
	return strings.TrimSpace(review.Status.UserInfo.Username), nil
}

// level is zap's: 0 shows info, -1 debug.
func level(verbose bool) zapcore.Level {
	if verbose {
		return zapcore.DebugLevel
	}
	return zapcore.InfoLevel
}
