// Command paceline paces restarts over a fleet of StatefulSets.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Exit status of the controller.
const (
	exitRun   = 1
	exitUsage = 2
)

// usageError is an error of the command line or the configuration: exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// version is the module's version, or the commit that the binary was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}

func main() {
	root := &cobra.Command{
		Use:           "paceline",
		Short:         "Paces restarts over a fleet of StatefulSets",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(controllerCommand(), &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), "paceline", version())
			return err
		},
	})
	err := root.ExecuteContext(ctrl.SetupSignalHandler())
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "paceline:", err)
	var usage usageError
	if errors.As(err, &usage) {
		os.Exit(exitUsage)
	}
	os.Exit(exitRun)
}
