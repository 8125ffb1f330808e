package nodeproc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	container = strings.Repeat("0123456789abcdef", 4)
	inner     = strings.Repeat("f", 64)
	pod       = "pod0f6fe5d3-1f2a-4c8e-9d3b-7a1c2b3d4e5f"
)

func TestPlaceOf(t *testing.T) {
	var v Viewpoint
	for text, want := range map[string]Place{
		"0::/system.slice/docker.service\n": {Cgroup: "/system.slice/docker.service"},
		"0::/\n":                            {Cgroup: "/"},
		"":                                  {},
		"0::/docker/" + container + "\n":    {Container: container, Cgroup: "/docker/" + container},
		"0::/system.slice/docker-" + container + ".scope/init\n":                      {Container: container, Cgroup: "/system.slice/docker-" + container + ".scope/init"},
		"0::/docker/" + container + "/docker/" + inner + "\n":                         {Container: inner, Cgroup: "/docker/" + container + "/docker/" + inner},
		"0::/kubepods/" + pod + "/shim\n":                                             {InPod: true, Cgroup: "/kubepods/" + pod + "/shim"},
		"0::/kubepods/" + pod + "/crio-" + container + "\n":                           {InPod: true, Container: container, Cgroup: "/kubepods/" + pod + "/crio-" + container},
		"0::/kubepods.slice/x.slice/crio-conmon-" + container + ".scope\n":            {InPod: true, Cgroup: "/kubepods.slice/x.slice/crio-conmon-" + container + ".scope"},
		"0::/libpod_parent/libpod-conmon-" + container + "\n":                         {Cgroup: "/libpod_parent/libpod-conmon-" + container},
		"4:cpuset:/docker/" + container + "\n3:cpu,cpuacct:/a\n2:cpuacct:/b\n0::/c\n": {Container: container, Cgroup: "/a"},
	} {
		if got := v.placeOf([]byte(text)); got != want {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
	// A node that is itself a container, as in kind: its own group is no container.
	v.cgroups = map[string]string{"0": "/docker/" + container + "/init"}
	if got := v.placeOf([]byte("0::/docker/" + container + "/kubelet\n")); got.Container != "" {
		t.Errorf("beside this process: %+v", got)
	}
	if got := v.placeOf([]byte("0::/docker/" + container + "/kubepods/" + pod + "/" + inner + "\n")); got.Container != inner || !got.InPod {
		t.Errorf("below this process: %+v", got)
	}
}

// TestLocate: only processes of root without a nested PID namespace have a place; a process that has ended has none.
func TestLocate(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var v Viewpoint
	for _, test := range []struct {
		uids, pids string
		ok         bool
	}{
		{"0\t0\t0\t0", "7", true},
		{"0\t0\t0\t1000", "7", false},
		{"1000\t0\t0\t0", "7", false},
		{"0\t0\t0\t0", "7\t1", false},
	} {
		write("status", "Name:\tdockerd\nUid:\t"+test.uids+"\nNSpid:\t"+test.pids+"\n")
		write("cgroup", "0::/system.slice/docker.service\n")
		id, at, ok := v.Locate(dir)
		if ok != test.ok || ok && (id.Comm != "dockerd" || at.Cgroup != "/system.slice/docker.service") {
			t.Errorf("%+v: got %+v, %+v, %v", test, id, at, ok)
		}
	}
	if _, _, ok := v.Locate(filepath.Join(dir, "none")); ok {
		t.Error("an ended process has a place")
	}
}

func FuzzPlaceOf(f *testing.F) {
	f.Add([]byte("3:cpu,cpuacct:/docker/" + container + "\n0::/c\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var v Viewpoint
		if at := v.placeOf(text); at.Container != "" && !containerID.MatchString(at.Container) {
			t.Errorf("%q: container %q", text, at.Container)
		}
	})
}
