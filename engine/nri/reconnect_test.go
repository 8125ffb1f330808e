package nri

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
)

// TestReconnects: the wait doubles for each kind of failure and is reset by a stable connection. Until then,
// each reason is reported once.
func TestReconnects(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	r := newReconnects()
	refused, closed, reset := errors.New("refused"), errors.New("closed"), errors.New("reset")
	for i, step := range []struct {
		ending
		wait   time.Duration
		report bool
	}{
		{ending{err: refused}, 100 * ms, true},
		{ending{err: refused}, 200 * ms, false},
		{ending{err: reset}, 400 * ms, true},
		{ending{err: refused}, 800 * ms, false}, // already reported
		{ending{err: refused}, s, false},
		{ending{err: refused}, s, false},
		{ending{true, 5 * s, false, closed}, 100 * ms, true}, // the runtime lives
		{ending{true, 5 * s, false, closed}, 200 * ms, false},
		{ending{err: refused}, 100 * ms, false},
		{ending{true, s, true, closed}, 100 * ms, false}, // the runtime has died
		{ending{err: refused}, 100 * ms, false},
		{ending{true, s, true, closed}, 100 * ms, false},
		{ending{true, s, true, closed}, 5 * s, true}, // the runtime dies repeatedly
		{ending{err: errors.New("another")}, 100 * ms, false},
		{ending{true, s, true, closed}, 10 * s, false},
		{ending{true, s, true, closed}, 20 * s, false},
		{ending{true, s, true, closed}, 40 * s, false},
		{ending{true, s, true, closed}, 80 * s, false},
		{ending{true, s, true, closed}, 160 * s, false},
		{ending{true, s, true, closed}, 300 * s, false},
		{ending{true, s, true, closed}, 300 * s, false},
		{ending{true, time.Minute, true, closed}, 100 * ms, true}, // the connection was stable, so this counts as a restart
		{ending{err: refused}, 100 * ms, true},
		{ending{true, s, true, closed}, 100 * ms, false},
	} {
		if wait, report := r.next(step.ending); wait != step.wait || report != step.report {
			t.Errorf("step %d: wait %v, report %v; want %v, %v", i, wait, report, step.wait, step.report)
		}
	}
	var reported int
	for i := range 100 { // 100 different reasons
		if _, report := r.next(ending{err: errors.New(strings.Repeat("x", i))}); report {
			reported++
		}
	}
	if reported > maxReasons {
		t.Errorf("%d reasons reported; want %d at most", reported, maxReasons)
	}
}

func TestJitter(t *testing.T) {
	for range 1000 {
		if wait := jitter(time.Second); wait < time.Second || wait > 1250*time.Millisecond {
			t.Fatal(wait)
		}
	}
}

const (
	runtimeSocket = "CANDOR_TEST_RUNTIME_SOCKET"
	runtimeDies   = "CANDOR_TEST_RUNTIME_DIES"
)

// TestPlayRuntime is the NRI side of a runtime, which TestRuntimeThatDies runs as a separate process. If
// runtimeDies is set, the process exits right after it has synchronized a plugin.
func TestPlayRuntime(t *testing.T) {
	socket := os.Getenv(runtimeSocket)
	if socket == "" {
		t.Skip("TestRuntimeThatDies starts it")
	}
	var started atomic.Bool
	sync := func(ctx context.Context, synchronize adaptation.SyncCB) error {
		_, err := synchronize(ctx, nil, nil)
		if started.Load() && os.Getenv(runtimeDies) != "" { // false while runtime.Start synchronizes
			os.Exit(2)
		}
		return err
	}
	update := func(context.Context, []*adaptation.ContainerUpdate) ([]*adaptation.ContainerUpdate, error) {
		return nil, nil
	}
	dir := filepath.Dir(socket)
	runtime, err := adaptation.New("containerd", "v2.4.2", sync, update, adaptation.WithSocketPath(socket),
		adaptation.WithPluginPath(dir), adaptation.WithPluginConfigPath(dir))
	if err == nil {
		err = runtime.Start()
		started.Store(true)
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
}

// TestRuntimeThatDies: the waits grow if the runtime dies right after each synchronization. The log has a
// single line about the deaths, and a single line when a runtime stays up.
func TestRuntimeThatDies(t *testing.T) {
	l := newLab(t)
	log := &syncLog{}
	e := NewEngine(l.host, DefaultConfig(), slog.New(slog.NewTextHandler(log, nil)))
	e.reconnects.stable, e.reconnects.deathWait = time.Second, 500*time.Millisecond
	dir, err := os.MkdirTemp("", "candor-nri-") // not t.TempDir: the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "nri.sock")
	synchronized := make(chan struct{}, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx, socket, func() { synchronized <- struct{}{} }) }()
	play := func(dies string) *exec.Cmd {
		os.Remove(socket)
		cmd := exec.Command(os.Args[0], "-test.run=^TestPlayRuntime$")
		cmd.Env = append(os.Environ(), runtimeSocket+"="+socket, runtimeDies+"="+dies)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	began := time.Now()
	const deaths = manyDeaths + 2 // the last two waits take 0.5 s and 1 s
	for range deaths {            // a service restarts the runtime at once
		play("yes").Wait()
	}
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("the runtime died %d times in %v\n%s", deaths, took, log)
	}
	if got := len(synchronized); got != deaths {
		t.Errorf("%d synchronizations; want %d", got, deaths)
	}
	alive := play("")
	defer func() { alive.Process.Kill(); alive.Wait() }()
	for end := time.Now().Add(time.Minute); !strings.Contains(log.String(), "the runtime stays up with"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log does not report that the runtime stays up:\n%s", log)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for message, want := range map[string]int{"has ended repeatedly": 1, "the runtime stays up with": 1, "msg=synchronized": manyDeaths} {
		if got := strings.Count(log.String(), message); got != want {
			t.Errorf("%q is in the log %d times; want %d\n%s", message, got, want, log)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines > 20 {
		t.Errorf("%d lines in the log:\n%s", lines, log)
	}
}

// TestHasEnded: a live process does not count as ended, even if it closes the connection. A killed or
// invisible process does.
func TestHasEnded(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var r runtimeProcess
	r.open(cmd.Process.Pid)
	defer r.close()
	if r.hasEnded() {
		t.Error("a live process counts as ended")
	}
	cmd.Process.Kill()
	if !r.hasEnded() { // the parent has not waited for it yet
		t.Error("a killed process counts as alive")
	}
	cmd.Wait()
	var hidden runtimeProcess
	hidden.open(0)
	if !hidden.hasEnded() {
		t.Error("an invisible process counts as alive")
	}
}
