package nri

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestCheckSocket(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file: "not a socket", dir: "not a socket", file + "/sock": "not a directory", "": "a path of 0 bytes",
		"/" + strings.Repeat("a", 108): "107 bytes at most",
	} {
		if err := CheckSocket(path); !errors.Is(err, ErrBadSocket) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v; want %q", path, err, want)
		}
	}
	for _, path := range []string{filepath.Join(dir, "later"), filepath.Join(dir, "no", "folder")} {
		if err := CheckSocket(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A syncLog may be written and read at the same time.
type syncLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *syncLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *syncLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A runtime that is not there is waited for, and that is said once for each reason, with what to check.
func TestWaitsForTheRuntime(t *testing.T) {
	l := newLab(t)
	log := &syncLog{}
	e := NewEngine(l.host, DefaultConfig(), slog.New(slog.NewTextHandler(log, nil)))
	dir, err := os.MkdirTemp("", "candor-nri-") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "nri.sock")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx, socket, func() {}) }()
	wait := func(what string, n int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); strings.Count(log.String(), what) < n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not said %d times: %q\n%s", n, what, log)
			}
		}
	}
	wait("no such file", 1)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	// At the third knock it has heard of two that were not answered.
	for range 3 {
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	if n := strings.Count(log.String(), "waiting for the runtime"); n != 2 {
		t.Errorf("said %d times: want it once for no socket, once for no answer:\n%s", n, log)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	wait("connection refused", 1)
	if !strings.Contains(log.String(), "does the runtime run, has it NRI on") {
		t.Errorf("not said what to check:\n%s", log)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
