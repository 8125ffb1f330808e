package containerd

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/guest"
	"github.com/candor-project/candor/e2e/guest/report"
	"github.com/candor-project/candor/e2e/ledgertables"
	"github.com/candor-project/candor/e2e/probes"
)

// ledgerKernel returns the kernel that scripts/ledger-kernel.sh builds.
func ledgerKernel() (guest.Kernel, error) {
	cache, err := guest.Cache()
	if err != nil {
		return guest.Kernel{}, err
	}
	images, err := filepath.Glob(filepath.Join(cache, "ledger-kernel", "vmlinuz-*"))
	if err != nil {
		return guest.Kernel{}, err
	}
	inputs, err := filepath.Glob("../ledgertables/kernel/*")
	if err != nil {
		return guest.Kernel{}, err
	}
	hash := sha256.New()
	for _, file := range append([]string{"../../scripts/ledger-kernel.sh"}, inputs...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return guest.Kernel{}, err
		}
		hash.Write(text)
	}
	stamp, err := os.ReadFile(filepath.Join(cache, "ledger-kernel", "stamp"))
	if err != nil || len(images) != 1 || strings.TrimSpace(string(stamp)) != hex.EncodeToString(hash.Sum(nil)) {
		return guest.Kernel{}, errors.New("no kernel with the present patch; scripts/ledger-kernel.sh builds it")
	}
	return guest.Kernel{Release: strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-"), Image: images[0], CpusetsV1: true}, nil
}

// missingGuest returns an error if the emulator or the kernel is missing.
func missingGuest() error {
	if _, err := exec.LookPath(guest.QEMU); err != nil {
		return fmt.Errorf("%w; make test-deps installs it", err)
	}
	_, err := ledgerKernel()
	return err
}

// A guestMeter measures cells in a guest, whose kernel has the paper's patch. The guest has a single CPU, whose clock counts instructions.
type guestMeter struct {
	*testing.T
	results chan ledgertables.Result // in the order of the cells; closed when the guest has ended
	err     error                    // reason for the end of the guest; valid after results is closed
}

// newGuestMeter boots a guest that measures cells one after another. The end of the test, or of ctx, ends the guest.
func newGuestMeter(ctx context.Context, t *testing.T, cells []ledgertables.Cell) *guestMeter {
	t.Helper()
	g := ledgerGuest(t, cells)
	m := &guestMeter{T: t, results: make(chan ledgertables.Result, len(cells))}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	t.Cleanup(func() {
		stop()
		<-ended
	})
	go func() {
		defer close(ended)
		m.run(ctx, g)
	}()
	return m
}

// ledgerGuest builds the programs of the guest.
func ledgerGuest(t *testing.T, cells []ledgertables.Cell) *guest.Guest {
	t.Helper()
	kernel, err := ledgerKernel()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(cells)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"-C", "../..", "build", "-o", dir + "/", "./e2e/guest/init", "./e2e/ledgertables/copier"},
		{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", dir + "/containerd.test", "."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	const limit = 24 * time.Hour // the guest ends after its cells
	return &guest.Guest{
		Kernel: kernel, Machine: guest.Machine{Sockets: 1, Nodes: 1, Cores: 1, Threads: 1, NodeMB: 3072}, Cgroup: 1, Counted: true, Limit: limit,
		Init: filepath.Join(dir, "init"), Files: ledgerGuestFiles(t, dir),
		Commands: []report.Command{{
			Name: "cells", Limit: limit,
			Args: []string{"/guest/containerd.test", "-test.run=^TestLedgerCells$", "-test.timeout=0"},
			Env:  []string{"CANDOR_LEDGER_CELLS=" + string(text), "CANDOR_IN_GUEST=1", "CANDOR_GUEST_CACHE=/guest/cache"},
		}},
	}
}

// ledgerGuestFiles returns the files of the guest, given the directory of the built programs.
func ledgerGuestFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	busybox := filepath.Join(testCache(), "busybox")
	files := map[string]string{
		"/bin/busybox": busybox, "/guest/cache/busybox": busybox, "/guest/cache/containerd": filepath.Join(testCache(), "containerd"),
		"/guest/containerd.test": filepath.Join(dir, "containerd.test"), copierProgram: filepath.Join(dir, "copier"),
	}
	for _, program := range []string{"runc", "sysbench"} {
		linked, err := probes.Linked(program)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range linked {
			files[file] = file
		}
	}
	return files
}

// run runs the guest to its end, and passes its results on.
func (m *guestMeter) run(ctx context.Context, g *guest.Guest) {
	defer close(m.results)
	r, w := io.Pipe()
	g.Output = w
	parsed := make(chan error, 1)
	go func() { parsed <- m.parse(r) }()
	results, err := g.Run(ctx)
	w.Close()
	m.err = errors.Join(err, <-parsed)
	for _, r := range results {
		if r.Code != 0 || m.err != nil {
			m.err = errors.Join(m.err, fmt.Errorf("in the guest: code %d %s\n%s", r.Code, r.Error, r.Output))
		}
	}
}

// parse reads the output of TestLedgerCells to its end.
func (m *guestMeter) parse(r io.Reader) (err error) {
	defer io.Copy(io.Discard, r) // after an error, the guest must not wait for a reader
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		text, isResult := strings.CutPrefix(lines.Text(), ledgerCellMark)
		if !isResult {
			continue
		}
		var result ledgertables.Result
		if parseErr := json.Unmarshal([]byte(text), &result); parseErr != nil {
			err = errors.Join(err, fmt.Errorf("%q: %w", text, parseErr))
			continue
		}
		m.results <- result
	}
	return errors.Join(err, lines.Err())
}

// measure returns the result of the next cell, which the guest measures in the same order.
func (m *guestMeter) measure(c ledgertables.Cell) ledgertables.Result {
	m.Helper()
	result, ok := <-m.results
	if !ok {
		m.Fatalf("%s: the guest has ended: %v", c, m.err)
	}
	return result
}
