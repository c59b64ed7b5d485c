// Command paceline paces restarts over a fleet of StatefulSets.
package main

import (
	"errors"
	"fmt"
	"os"

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

func main() {
	root := &cobra.Command{
		Use:           "paceline",
		Short:         "Paces restarts over a fleet of StatefulSets",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(controllerCommand())
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
