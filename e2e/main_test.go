package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain builds candor once. CANDOR_BIN can name an existing binary instead.
func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	// Under nohup SIGHUP is ignored, also by each program that a test starts, unless the program handles it.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP)
	if os.Getenv("CANDOR_BIN") == "" {
		dir, err := os.MkdirTemp("", "candor-e2e-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = buildCandor(filepath.Join(dir, "candor"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

func buildCandor(bin string) error {
	// Some tests run it as another user.
	if err := os.Chmod(filepath.Dir(bin), 0o755); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", bin, "../cmd/candor")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/candor: %v\n%s", err, out)
	}
	return os.Setenv("CANDOR_BIN", bin)
}
