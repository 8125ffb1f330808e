package guest_test

import (
	"bytes"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/guest"
	"github.com/candor-project/candor/e2e/guest/report"
	"github.com/candor-project/candor/e2e/probes"
)

// TestContainerd runs tests of e2e/containerd that differ on cgroup v2 and with NUMA nodes, on 16 CPUs: candor nri and
// candor-runc under containerd, with runc.
func TestContainerd(t *testing.T) {
	needGuest(t)
	t.Parallel()
	all := kernels(t)
	withContainerd(t, guest.Guest{
		Kernel:  all[len(all)-1],
		Machine: guest.Medium,
		Cgroup:  2,
	}, "TestNUMA|TestPodGroup|TestRuntime|TestBurstRaised|TestMemoryView")
}

// TestContainerdWithSystemd runs the tests of e2e/containerd that differ if systemd creates the groups of
// pods and containers.
func TestContainerdWithSystemd(t *testing.T) {
	needGuest(t)
	t.Parallel()
	all := kernels(t)
	g := systemd(t, all[len(all)-1])
	g.Machine = guest.Machine{Sockets: 1, Nodes: 1, Cores: 4, Threads: 1, NodeMB: 1536}
	withContainerd(t, g, "TestSystemdCgroup")
}

// withContainerd boots a guest that has containerd and runc, and runs tests of e2e/containerd there, with more environment variables.
// None of the tests may be skipped. Without a limit, the guest has 14 minutes.
func withContainerd(t *testing.T, g guest.Guest, tests string, env ...string) {
	t.Helper()
	built := build(t)
	goTool(t, "build", "-o", built.dir+"/", "./cmd/candor")
	goTool(t, "-C", "e2e/containerd", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", filepath.Join(built.dir, "containerd.test"), ".")
	cache, err := guest.Cache()
	if err != nil {
		t.Fatal(err)
	}
	g.Init = filepath.Join(built.dir, "init")
	if g.Limit == 0 {
		g.Limit = 14 * time.Minute
	}
	pattern := "^(" + tests + ")$"
	if only := selected(t); only != "" {
		pattern = only
	}
	g.Commands = []report.Command{{
		Name:  "containerd",
		Args:  []string{"/guest/containerd.test", "-test.v=test2json", "-test.timeout=" + (g.Limit - 2*time.Minute).String(), "-test.run=" + pattern},
		Env:   append(env, "CANDOR_IN_GUEST=1", "CANDOR_BIN=/usr/bin/candor", "CANDOR_GUEST_CACHE=/guest/cache"),
		Limit: g.Limit - time.Minute,
	}}
	g.Texts = map[string]string{"/etc/hosts": "127.0.0.1 localhost\n", "/etc/resolv.conf": ""} // containerd copies them into its pods
	files := built.files(t)
	maps.Copy(files, g.Files)
	g.Files = files
	g.Files["/guest/containerd.test"] = filepath.Join(built.dir, "containerd.test")
	g.Files["/guest/cache/containerd"] = filepath.Join(cache, "containerd")
	g.Files["/guest/cache/busybox"] = filepath.Join(cache, "busybox")
	addRunc(t, g.Files)
	for _, r := range run(t, &g) {
		relay(t, r)
		if bytes.Contains(r.Output, []byte("--- SKIP")) {
			t.Error("the machine is not what the test needs")
		}
	}
	t.Logf("%s: %.0f s of CPU time", g.Machine, g.CPUTime.Seconds())
}

// addRunc adds runc with its libraries to the files of a guest.
func addRunc(t *testing.T, files map[string]string) {
	t.Helper()
	runc, err := probes.Linked("runc")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range runc {
		files[file] = file
	}
}
