package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleaseArm64: candor for arm64 runs under QEMU's user mode, and gives the plans and topologies of this machine's candor.
func TestReleaseArm64(t *testing.T) {
	const qemu = "qemu-aarch64-static"
	if os.Getenv("CANDOR_RELEASE") == "" {
		t.Skip("make test-release installs " + qemu)
	}
	bin := filepath.Join(t.TempDir(), "candor")
	build := exec.Command("go", "build", "-o", bin, "../cmd/candor")
	build.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	if got := do(t, build); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	run := func(args ...string) string {
		t.Helper()
		got := do(t, exec.Command(qemu, append([]string{bin}, args...)...))
		if got.code != 0 || got.err != "" {
			t.Fatalf("candor %v: %+v", args, got)
		}
		return got.out
	}
	if got := run("version"); !strings.HasPrefix(got, "candor ") || !strings.HasSuffix(got, " linux/arm64)\n") {
		t.Errorf("candor version prints %q", got)
	}
	const machine = "pack:2 numa:1 l3:1 core:4 pu:2"
	for _, args := range [][]string{
		{"topology", "--machine", machine},
		{"topology", "--machine", machine, "-o", "json"},
		{"plan", "--machine", machine, "../docs/examples/map.jsonl"},
		{"plan", "--machine", machine, "-o", "json", "../docs/examples/map.jsonl"},
	} {
		want := do(t, exec.Command(os.Getenv("CANDOR_BIN"), args...))
		if got := run(args...); want.code != 0 || got == "" || got != want.out {
			t.Errorf("candor %v: got\n%s\nwant\n%s", args, got, want.out)
		}
	}
}
