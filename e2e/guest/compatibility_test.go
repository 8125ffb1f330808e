package guest_test

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/compatibility"
	"github.com/candor-project/candor/e2e/guest"
	"github.com/candor-project/candor/e2e/guest/report"
)

// TestCompatibility boots the guest of a cell of docs/compatibility.md, and measures the cell in it: make matrix.
func TestCompatibility(t *testing.T) {
	cell := compatibility.Selected(t)
	needGuest(t)
	if cell.Machine.Name == compatibility.Host {
		t.Skip("a cell of the host")
	}
	g := compatGuest(t, cell.Machine)
	env := compatibility.Variable + "=" + cell.String()
	if cell.Engine.Name == "runc" {
		withRunc(t, g, env)
		return
	}
	withContainerd(t, g, "TestCompatibility", env)
}

// compatGuest returns the guest of a machine, with 4 CPUs.
func compatGuest(t *testing.T, m compatibility.Machine) guest.Guest {
	t.Helper()
	for _, k := range kernels(t) {
		if !strings.HasPrefix(k.Release, m.Kernel) {
			continue
		}
		g := guest.Guest{Kernel: k, Cgroup: m.Cgroup, Files: map[string]string{}}
		switch {
		case m.Systemd:
			g = systemd(t, k)
		case m.Cgroup == 1 && !k.CpusetsV1:
			compatibility.Unsupported(t, "Linux %s has no cpuset controller on cgroup v1", k.Release)
		}
		g.Machine = guest.Machine{Sockets: 1, Nodes: 1, Cores: 4, Threads: 1, NodeMB: 1536}
		return g
	}
	t.Skipf("no kernel %s* in the cache: scripts/test-deps.sh fetches the kernels of the distribution", m.Kernel)
	return guest.Guest{}
}

// withRunc boots a guest that has runc, and runs TestCompatibility of e2e there.
func withRunc(t *testing.T, g guest.Guest, env string) {
	t.Helper()
	built := build(t, "e2e")
	g.Init, g.Limit = filepath.Join(built.dir, "init"), 6*time.Minute
	files := built.files(t)
	maps.Copy(files, g.Files)
	addRunc(t, files)
	g.Files = files
	g.Commands = []report.Command{{
		Name:  "runc",
		Args:  []string{"/guest/e2e/e2e.test", "-test.v=test2json", "-test.run=^TestCompatibility$"},
		Env:   []string{env, "CANDOR_IN_GUEST=1", "CANDOR_BIN=/usr/bin/candor"},
		Dir:   "/guest/e2e",
		Limit: 5 * time.Minute,
	}}
	for _, r := range run(t, &g) {
		relay(t, r)
	}
}
