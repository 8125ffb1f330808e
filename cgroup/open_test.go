package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	apart = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	together = `34 24 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:10 - cgroup cgroup rw,cpu,cpuacct
35 24 0:31 / /sys/fs/cgroup/cpuset rw,nosuid shared:11 - cgroup cgroup rw,cpuset,clone_children
`
	pure      = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
	container = `600 599 0:30 /docker/17ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct
601 599 0:31 /docker/17ab /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset
602 599 0:31 / /host/sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
`
	split = `32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`
)

// TestDetect: Open finds the mount point of each controller, for the mounts of several kinds of hosts and the
// controllers that v2 offers.
func TestDetect(t *testing.T) {
	for name, tt := range map[string]struct {
		mounts, offered, v2 string // v2: mount point of cgroup2
		cpu, cpuset         string
		hierarchies         int
		version             int
		err                 error
	}{
		"v1 apart":                   {apart, "hugetlb", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuset", 4, 1, nil},
		"v1 together":                {together, "", "", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpuset", 2, 1, nil},
		"v2":                         {pure, "cpuset cpu io memory", "/sys/fs/cgroup", "/sys/fs/cgroup", "/sys/fs/cgroup", 1, 2, nil},
		"cpu on v2, cpuset on v1":    {split, "cpu", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpuset", 2, 1, nil},
		"a container's view":         {container, "", "", "/sys/fs/cgroup/cpu,cpuacct", "/host/sys/fs/cgroup/cpuset", 2, 1, nil},
		"v2 without cpuset":          {pure, "cpu io", "/sys/fs/cgroup", "", "", 0, 0, ErrNoCpuset},
		"v2 without cpu":             {pure, "cpuset", "/sys/fs/cgroup", "", "", 0, 0, ErrNoCPU},
		"v2 with another controller": {pure, "cpusets cpu", "/sys/fs/cgroup", "", "", 0, 0, ErrNoCpuset},
		"no cgroups":                 {"", "", "", "", "", 0, 0, ErrNoCpuset},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			put(t, filepath.Join(root, "proc/1/mountinfo"), tt.mounts)
			if tt.v2 != "" {
				put(t, filepath.Join(root, tt.v2, "cgroup.controllers"), tt.offered+"\n")
			}
			tr, err := Open(Options{Root: root, ReadOnly: true})
			if !errors.Is(err, tt.err) {
				t.Fatal(err)
			}
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("more than one line: %v", err)
				}
				return
			}
			if tr.cpu.mount != root+tt.cpu || tr.cpuset.mount != root+tt.cpuset {
				t.Errorf("cpu at %s, cpuset at %s", tr.cpu.mount, tr.cpuset.mount)
			}
			if len(tr.all) != tt.hierarchies || tr.Version() != tt.version || tr.Driver() != Cgroupfs {
				t.Errorf("%d hierarchies, version %d, driver %s", len(tr.all), tr.Version(), tr.Driver())
			}
			if want := root + tt.cpuset + "/candor"; tr.cpuset.parent != want {
				t.Errorf("parent %s, want %s", tr.cpuset.parent, want)
			}
		})
	}
}

func put(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(text), 0o644))
}

func TestOpenChangesNothing(t *testing.T) {
	tr := tree(t)
	for _, h := range tr.all {
		if _, err := os.Stat(h.parent); !os.IsNotExist(err) {
			t.Errorf("%s: %v", h.parent, err)
		}
	}
	if names, err := tr.Groups(); err != nil || len(names) != 0 {
		t.Errorf("Groups = %v, %v", names, err)
	}
	must(t, tr.Refresh())
	must(t, tr.Remove())
}

func TestOpenRefuses(t *testing.T) {
	for _, o := range []Options{
		{Driver: "docker"}, {Parent: "/"}, {Parent: "/a/../.."}, {Parent: ".."}, {Parent: "/a\nb"},
		{Parent: strings.Repeat("/a", 5000)}, {Root: "/nonexistent"}, {Driver: Systemd, Parent: "/candor"},
		{Driver: Systemd, Parent: "a--b.slice"},
	} {
		if tr, err := Open(o); err == nil {
			t.Errorf("%+v was taken: %+v", o, tr)
		} else if line := err.Error(); strings.Contains(line, "\n") || len(line) > 300 {
			t.Errorf("%+v: not one clear line: %s", o, line)
		}
	}
}

func TestDirOf(t *testing.T) {
	for _, tt := range []struct{ root, path, want string }{
		{"/", "/", "/cg"}, {"/", "/a/b", "/cg/a/b"}, {"/", "/../x", "/cg"}, {"/", "/..", "/cg"},
		{"/docker/1", "/docker/1", "/cg"}, {"/docker/1", "/docker/1/in", "/cg/in"},
		{"/docker/1", "/docker/12", "/cg"}, {"/docker/1", "/", "/cg"}, {"/docker/1", "/docker/1/../../etc", "/cg"},
	} {
		h := hierarchy{mount: "/cg", root: tt.root}
		if got := h.dirOf(tt.path); got != tt.want {
			t.Errorf("root %s, path %s: %s, want %s", tt.root, tt.path, got, tt.want)
		}
	}
}

func TestGroupNames(t *testing.T) {
	tr := tree(t)
	a, _ := two(t, tr)
	for _, name := range []string{"", ".", "..", "a/b", "../x", "-a", ".a", "a b", "a\n", "ä", strings.Repeat("a", 65), "a\x00"} {
		g := tr.Group(name)
		_, err1 := g.Exists()
		_, err2 := g.Settings()
		_, err3 := g.Stat()
		_, err4 := g.Processes()
		_, err5 := g.Populated()
		_, _, err6 := g.Effective()
		for i, err := range []error{g.Create(Settings{CPUs: a}, 0), g.Apply(Settings{CPUs: a}), g.SetCPUs(a, a),
			g.Kill(9), g.Remove(), err1, err2, err3, err4, err5, err6} {
			if err == nil || !strings.Contains(err.Error(), "group name") {
				t.Errorf("name %q, call %d: %v", name, i, err)
			}
		}
	}
	for _, name := range []string{"a", "A.b_c-9", strings.Repeat("z", 64)} {
		group(t, tr, name, Settings{CPUs: a}, "")
	}
	names, err := tr.Groups()
	slices.Sort(names)
	if want := []string{"A.b_c-9", "a", strings.Repeat("z", 64)}; err != nil || !slices.Equal(names, want) {
		t.Errorf("Groups = %v, %v", names, err)
	}
	// Groups does not list the kernel's files, and no group can have their names.
	if err := tr.Group("cgroup.procs").Create(Settings{CPUs: a}, 0); err == nil {
		t.Error("a group took the name of a kernel file")
	}
}
