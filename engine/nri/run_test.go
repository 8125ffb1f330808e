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
		"/" + strings.Repeat("a", 108): "at most 107 bytes",
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

// syncLog is a log buffer that goroutines can write and read concurrently.
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

// TestRunWaitsForRuntime: Run waits for a missing runtime, reconnects, and logs the reason with a remedy.
func TestRunWaitsForRuntime(t *testing.T) {
	l := newLab(t)
	log := &syncLog{}
	e := NewEngine(l.host, DefaultConfig(), slog.New(slog.NewTextHandler(log, nil)))
	dir, err := os.MkdirTemp("", "candor-nri-") // not t.TempDir: the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "nri.sock")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx, socket, func() {}) }()
	wait := func(message string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !strings.Contains(log.String(), message); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not in the log: %q\n%s", message, log)
			}
		}
	}
	wait("no such file")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the plugin connects again
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	wait("connection refused")
	if !strings.Contains(log.String(), "start the runtime, enable NRI") {
		t.Errorf("the log has no remedy:\n%s", log)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
