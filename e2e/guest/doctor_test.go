package guest_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/e2e/guest"
)

// TestDoctor: candor doctor finds kernel parameters and a machine that limit Candor. A guest without them passes the same checks.
func TestDoctor(t *testing.T) {
	needGuest(t)
	t.Parallel()
	all := kernels(t)
	b := build(t, "cpuset") // and candor
	one := guest.Machine{Sockets: 1, Nodes: 1, Cores: 1, Threads: 1, NodeMB: 768}
	for _, c := range []struct {
		machine guest.Machine
		boot    string
		checks  map[string]string // check -> "ok", or a part of the finding
		code    string
	}{
		{guest.Small, "", map[string]string{"cgroup-controllers": "ok", "isolated-cpus": "ok", "cpus": "ok"}, "0"},
		{guest.Small, "cgroup_disable=cpuset", map[string]string{"cgroup-controllers": "no cpuset controller"}, "1"},
		{guest.Small, "isolcpus=2-3", map[string]string{"isolated-cpus": "CPUs 2-3: isolated"}, "0"},
		{one, "", map[string]string{"cpus": "1 CPU: "}, "0"},
	} {
		g := guest.Guest{Kernel: all[len(all)-1], Machine: c.machine, Cgroup: 2, Boot: c.boot, Init: filepath.Join(b.dir, "init"), Files: b.files(t)}
		checks := slices.Sorted(maps.Keys(c.checks))
		for _, check := range checks {
			g.Commands = append(g.Commands, sh("candor doctor --check "+check+"; echo exit $?"))
		}
		results, err := g.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, check := range checks {
			out, want := string(results[i].Output), c.checks[check]
			if isOK := strings.Contains(out, "\nok "); isOK != (want == "ok") || !strings.Contains(out, want) || !strings.HasSuffix(out, "exit "+c.code+"\n") {
				t.Errorf("kernel parameters %q, %s, %s: want %q in\n%s", c.boot, c.machine, check, want, out)
			}
		}
	}
}
