package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

func TestCheckPath(t *testing.T) {
	for _, good := range []string{"/kubepods/pod1/web", "/system.slice/cri-containerd-1.scope", "/a"} {
		if err := CheckPath(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "/", "a", "/a/", "/a//b", "/a/../b", "/..", "/a\nb", "/" + strings.Repeat("a/", 2000)} {
		if err := CheckPath(bad); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20q: %v; want one line", bad, err)
		}
	}
}

func TestEnginePath(t *testing.T) {
	for given, want := range map[string]string{
		"/kubepods/a:b:c":                                     "/kubepods/a:b:c",
		"/kubepods/burstable/pod1/abc":                        "/kubepods/burstable/pod1/abc",
		"kubepods-besteffort-podx_y.slice:cri-containerd:abc": "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podx_y.slice/cri-containerd-abc.scope",
		"system.slice::abc":                                   "/system.slice/abc.scope",
	} {
		if got, err := EnginePath(given); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", given, got, err, want)
		}
	}
	for _, bad := range []string{"", "abc", "a:b", "../x:y:z", "/a/../b"} {
		if got, err := EnginePath(bad); err == nil {
			t.Errorf("%q: taken for %s", bad, got)
		}
	}
}

// TestForeignMems: SetCPUs changes the memory nodes of a foreign group only if the caller requests it.
func TestForeignMems(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	g, _ := group(t, tr, "web", Settings{CPUs: a}, "")
	dir := g.dir(tr.cpuset)
	must(t, os.WriteFile(filepath.Join(dir, memsFile), []byte("\n"), 0o644))
	foreign := tr.EngineGroup("pod", tr.parent+"/web")
	must(t, foreign.SetCPUs(b, cpuset.Set{}))
	if mems, err := tr.readSet(dir, memsFile); err != nil || !mems.IsEmpty() {
		t.Errorf("memory nodes %v, %v; want none", mems, err)
	}
	_, all, err := tr.Effective()
	must(t, err)
	must(t, foreign.SetCPUs(a, all.Lowest(1)))
	if mems, err := tr.readSet(dir, memsFile); err != nil || mems != all.Lowest(1) {
		t.Errorf("on request: got %v, %v", mems, err)
	}
}
