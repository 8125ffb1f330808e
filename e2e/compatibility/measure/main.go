// Command measure measures the cells of docs/compatibility.md: make matrix.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/candor-project/candor/e2e/compatibility"
)

const usage = `usage: measure [-dir DIRECTORY] [-page FILE] [CELL...]

Measure cells of docs/compatibility.md. A cell is MACHINE/ENGINE, such as host/docker-20.10
or guest-6.12-v2/runc; MACHINE alone selects all of its cells. Without a cell, measure the
cells that have no result yet.
`

func main() { os.Exit(run()) }

func run() int {
	dir := flag.String("dir", ".matrix", "directory of the results")
	page := flag.String("page", "docs/compatibility.md", "page to write")
	flag.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flag.Parse()
	cells, err := compatibility.ParseCells(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		return 2
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "measure: starts container engines; run it as root")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	m := compatibility.Measurement{Source: ".", Results: filepath.Join(*dir, "cells.jsonl"), Page: *page, Engines: enginesDir(), Output: os.Stdout}
	if err := measure(ctx, &m, cells); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", strings.TrimSpace(err.Error()))
		return 1
	}
	return 0
}

func measure(ctx context.Context, m *compatibility.Measurement, cells []compatibility.Cell) error {
	if err := m.Open(); err != nil {
		return err
	}
	if len(cells) == 0 {
		cells = m.Missing()
	}
	return errors.Join(m.Run(ctx, cells), m.Close())
}

// enginesDir returns the cache of scripts/engines.sh.
func enginesDir() string {
	if dir := os.Getenv("CANDOR_ENGINES"); dir != "" {
		return dir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(base, "candor", "engines")
}
