package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// attackProgram builds the program that attacks from inside a container.
func attackProgram(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "attack")
	cmd := exec.Command("go", "build", "-o", bin, "./hostile/attacks/attack")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build ./e2e/hostile/attacks/attack: %v\n%s", err, out)
	}
	return bin
}

// TestHostileDockerLease has root in a container of Docker hold leases on its view. candor-runc has ended by
// then, so the kernel grants them. Other containers of Docker and of candor run start, change and end at
// once.
func TestHostileDockerLease(t *testing.T) {
	d := newDocker(t)
	attack := attackProgram(t)
	for _, kind := range []string{"read", "write"} {
		name := "evil-" + kind
		d.does("run", "-d", "--name", name, "--runtime", "candor", "--network", "none", "--cpus", "0.3", "-v", attack+":/attack", "box", "/attack", "lease", kind)
		for deadline := time.Now().Add(time.Minute); !strings.Contains(d.does("logs", name), "leases 2"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no leases: %s", d.does("logs", name))
			}
		}
		start := time.Now()
		d.does("run", "-d", "--name", "other", "--runtime", "candor", "--network", "none", "--cpus", "0.3", "box", "sleep", "100")
		d.does("update", "--cpus", "0.2", "other")
		if got := do(t, d.candor(append([]string{"run", "--cpu", "0.2"}, play("exit", "0")...)...)); got.code != 0 {
			t.Errorf("candor run: %+v", got)
		}
		d.does("rm", "-f", "other")
		if took := time.Since(start); took > 30*time.Second { // a broken lease takes 45 s
			t.Errorf("took %v", took)
		}
		d.does("rm", "-f", name)
	}
}
