// Command demo rolls twelve nodes on a real control plane of its own, once without a budget and once
// with one, and judges both by what the checker saw.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: demo [--keep] [--verbose]
  --keep     leave the control plane's folder, with all logs, behind
  --verbose  let the controller log every admission and every look
`

var errUsage = errors.New("usage")

type options struct{ keep, verbose bool }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C waits for nothing; the kernel then ends what was started
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted; all that was started has ended")
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout *os.File, stderr io.Writer) (err error) {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	log := newLog(stdout)
	s, err := openStage(ctx, opts, log)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.close(opts.keep || (err != nil && ctx.Err() == nil), stderr))
	}()
	d := &demo{stage: s, log: log, view: newView(stdout)}
	seen, err := d.perform(ctx)
	if err != nil {
		return err
	}
	result := seen.result()
	path, err := result.write()
	if err != nil {
		return err
	}
	fmt.Fprint(stdout, result.summary(path))
	return seen.verdict(result)
}

func parse(args []string) (options, error) {
	var opts options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&opts.keep, "keep", false, "")
	flags.BoolVar(&opts.verbose, "verbose", false, "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return opts, errUsage
	}
	return opts, nil
}
