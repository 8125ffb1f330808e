package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// TestDemo: the demo succeeds on this machine and leaves nothing behind. Its program counts an additional CPU
// after the resize.
func TestDemo(t *testing.T) {
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("the guests have not the script")
	}
	l := newLab(t)
	l.need(2)
	cmd := exec.Command("../scripts/demo.sh", os.Getenv("CANDOR_BIN"))
	cmd.Env = l.candor().Env
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &output)
	}
	var counts []int
	for _, line := range regexp.MustCompile(`(?m)^  demo-web +nproc (\d+),`).FindAllStringSubmatch(output.String(), -1) {
		n, _ := strconv.Atoi(line[1])
		counts = append(counts, n)
	}
	if len(counts) != 2 || counts[1] != counts[0]+1 {
		t.Errorf("demo-web counted %v CPUs, want one more the second time:\n%s", counts, &output)
	}
	if regexp.MustCompile(`(?m)(^|[^.\d])1 CPUs`).Match(output.Bytes()) { // but not a use of 0.91 CPUs
		t.Errorf("1 CPUs:\n%s", &output)
	}
	l.empty()
}
