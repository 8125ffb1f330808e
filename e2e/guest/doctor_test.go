package guest_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/e2e/guest"
	"github.com/candor-project/candor/e2e/guest/report"
)

// TestDoctorWithoutController: in a guest without the cpuset controller, candor doctor names the missing controller and exits with
// code 1. In a guest with the controller, the check is ok.
func TestDoctorWithoutController(t *testing.T) {
	needGuest(t)
	t.Parallel()
	all := kernels(t)
	b := build(t, "cpuset") // and candor
	for boot, want := range map[string]string{"": "ok ", "cgroup_disable=cpuset": "failed "} {
		g := guest.Guest{Kernel: all[len(all)-1], Machine: guest.Small, Cgroup: 2, Boot: boot, Init: filepath.Join(b.dir, "init"), Files: b.files(t),
			Commands: []report.Command{sh("candor doctor --check cgroup-controllers; echo exit $?")}}
		results, err := g.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out := string(results[0].Output)
		isFailed := boot != ""
		if !strings.Contains(out, "\n"+want) || isFailed != strings.Contains(out, "no cpuset controller") || isFailed != strings.HasSuffix(out, "exit 1\n") {
			t.Errorf("kernel parameters %q:\n%s", boot, out)
		}
	}
}
