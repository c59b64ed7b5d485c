package main

import (
	"context"
	"fmt"
	"time"

	"github.com/paceline/paceline/test/checker"
)

// patience is how long a part may take. It is no measure of speed.
const patience = 3 * time.Minute

// demo is a run on a stage.
type demo struct {
	*stage
	log  *log
	view view
}

// perform creates the fleet and shows the parts.
func (d *demo) perform(ctx context.Context) (seen, error) {
	var s seen
	d.log.say("creating %d nodes of one pod each, ready %s after it is created", nodes, readyAfter)
	if err := d.createFleet(ctx); err != nil {
		return s, err
	}
	if err := d.until(ctx, "the nodes to be ready", d.view.note, all(row.settled)); err != nil {
		return s, err
	}
	d.log.heading("Part 0: one node alone, budget 0. How long does one roll take?")
	if err := d.roll(ctx, &s.single, image(2), nodeName(0)); err != nil {
		return s, err
	}
	d.log.heading("Part 1: a new image for all %d nodes, budget 0: nothing is held", nodes)
	if err := d.roll(ctx, &s.unpaced, image(3)); err != nil {
		return s, err
	}
	d.log.heading("Part 2: the same with a budget of %d %%; every second node is OnDelete now", percent)
	if err := d.halfOnDelete(ctx); err != nil {
		return s, err
	}
	if err := d.setBudget(ctx, percent); err != nil {
		return s, err
	}
	known := func(r row) bool { return r.settled() && r.known }
	if err := d.until(ctx, "the nodes to count for the budget", d.view.note, all(known)); err != nil {
		return s, err
	}
	return s, d.roll(ctx, &s.paced, image(4))
}

// roll bumps the image, shows the fleet until it runs it, and reports what the checker saw.
func (d *demo) roll(ctx context.Context, report *checker.Report, image string, names ...string) error {
	watch, err := checker.Start(ctx, d.AdminConfig(), cell)
	if err != nil {
		return err
	}
	defer watch.Stop()
	d.view.begin()
	if err := d.bump(ctx, image, names...); err != nil {
		return err
	}
	if err := d.until(ctx, "the nodes to run "+image, d.view.show, all(row.settled)); err != nil {
		return err
	}
	*report = watch.Finish(ctx)
	return nil
}

func all(is func(row) bool) func([]row) bool {
	return func(rows []row) bool {
		for _, r := range rows {
			if !is(r) {
				return false
			}
		}
		return len(rows) == nodes
	}
}

// until reads and shows the fleet until it is as wanted.
func (d *demo) until(ctx context.Context, what string, show func([]row), done func([]row) bool) error {
	const interval = 250 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		rows, err := readRows(ctx, d.Client())
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
		show(rows)
		if done(rows) {
			return nil
		}
		if err := d.healthy(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(interval):
		}
	}
}
