package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTopologyGain: on a machine with one NUMA node no topology policy can help, so the measurement runs nothing.
func TestTopologyGain(t *testing.T) {
	if line, err := exec.Command(os.Getenv("CANDOR_BIN"), "topology").Output(); err != nil || !strings.Contains(string(line), " 1 NUMA node,") {
		t.Skipf("several NUMA nodes, where it takes minutes; or %v", err)
	}
	cmd := exec.Command("../scripts/topology-gain.sh")
	cmd.Env = append(os.Environ(), "PATH=/usr/bin:/bin", "ANYWAY=")
	if got := do(t, cmd); got.code != 0 || got.err != "" || !strings.HasSuffix(got.out, "gains nothing.\n") {
		t.Errorf("%+v", got)
	}
}
