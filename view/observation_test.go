package view

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
)

// Lines of mount tables. A container has its own root, procfs and sysfs.
const (
	containerMounts = "500 400 0:60 / / rw - overlay overlay rw\n" +
		"501 500 0:61 / /proc rw - proc proc rw\n" +
		"502 500 0:62 / /sys ro - sysfs sysfs ro\n" +
		"503 502 0:63 /../.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n" +
		"504 501 0:61 /sys /proc/sys ro - proc proc rw\n"
	webOnline  = "510 502 0:25 /candor/views/web/online /sys/devices/system/cpu/online ro - tmpfs tmpfs rw\n"
	webCPUInfo = "511 501 0:25 /candor/views/web/cpuinfo /proc/cpuinfo ro - tmpfs tmpfs rw\n"
	lxcfs      = "512 501 0:70 /proc/cpuinfo /proc/cpuinfo rw - fuse.lxcfs lxcfs rw\n"
	lxcfsStat  = "513 501 0:70 /proc/stat /proc/stat rw - fuse.lxcfs lxcfs rw\n"
)

// TestObserve determines the content of each file from the mount table, on a machine with the CPUs 0-3 and a view of the CPUs 1 and 2.
func TestObserve(t *testing.T) {
	views := t.TempDir()
	writeView(t, filepath.Join(views, "web"), "1-2\n")
	writeView(t, filepath.Join(views, "inner"), "1\n")
	const machine, unknown = "0-3", "?"
	for _, test := range []struct {
		name, mounts          string
		online, cpuinfo, stat string // CPUs, or ? if unknown
		summary, view         string
		isHidden              bool
	}{
		{"no view", containerMounts, machine, machine, machine, "2/4", "", false},
		{"a view", containerMounts + webOnline + webCPUInfo, "1-2", "1-2", machine, "2", "web", false},
		{"a view of one file", containerMounts + webOnline, "1-2", machine, machine, "2/4", "", false},
		{"a view in a view", containerMounts + webOnline + webCPUInfo +
			"520 510 0:25 /candor/views/inner/online /sys/devices/system/cpu/online ro - tmpfs tmpfs rw\n" +
			"521 511 0:25 /candor/views/inner/cpuinfo /proc/cpuinfo ro - tmpfs tmpfs rw\n", "1", "1", machine, "2/1", "inner", false},
		{"a removed view", containerMounts + strings.ReplaceAll(webOnline+webCPUInfo, "views/web", "views/gone"), unknown, unknown, machine, "2/?", "gone", true},
		{"a deleted file of a view", containerMounts + strings.Replace(webOnline, "/web/online ", "/web/online//deleted ", 1) + webCPUInfo,
			unknown, "1-2", machine, "2/?", "", false},
		{"lxcfs", containerMounts + lxcfs + lxcfsStat, machine, unknown, unknown, "2/4", "", false},
		{"lxcfs over a view", containerMounts + webOnline + webCPUInfo + strings.Replace(lxcfs, " 501 ", " 511 ", 1), "1-2", unknown, machine, "2/?", "", false},
		{"a tenant's sysfs over a view", containerMounts + webOnline + webCPUInfo + "530 502 0:62 / /sys rw - sysfs sysfs rw\n", machine, "1-2", machine, "2/4", "", false},
		{"a tenant's file system over /sys", containerMounts + webOnline + webCPUInfo + "530 502 0:90 / /sys rw - tmpfs tmpfs rw\n", unknown, "1-2", machine, "2/?", "", false},
		{"a mount below a covered directory", containerMounts + "530 500 0:91 /candor/views/web/online /sys/devices/system/cpu/online ro - tmpfs t rw\n",
			machine, machine, machine, "2/4", "", false},
		{"a bind mount of the kernel's file", containerMounts + "530 501 0:61 /cpuinfo /proc/cpuinfo ro - proc proc rw\n", machine, machine, machine, "2/4", "", false},
		{"a bind mount of the kernel's directory", containerMounts + "530 502 0:62 /devices /sys/devices ro - sysfs sysfs rw\n", machine, machine, machine, "2/4", "", false},
		{"no sysfs", strings.Join(strings.SplitAfter(containerMounts, "\n")[:2], ""), unknown, machine, machine, "2/4", "", false},
		{"a stacked root", "1 1 0:1 / / rw - rootfs rootfs rw\n2 1 8:1 / / rw - ext4 /dev/sda rw\n3 2 0:5 / /proc rw - proc proc rw\n4 2 0:6 / /sys rw - sysfs sysfs rw\n",
			machine, machine, machine, "2/4", "", false},
		{"a root that is no mount", "3 2 0:5 / /proc rw - proc proc rw\n4 2 0:6 / /sys rw - sysfs sysfs rw\n", machine, machine, machine, "2/4", "", false},
		{"a cycle", "3 4 0:5 / / rw - proc proc rw\n4 3 0:6 / / rw - sysfs sysfs rw\n", unknown, unknown, unknown, "2/?", "", false},
		{"an empty table", "", unknown, unknown, unknown, "2/?", "", false},
		{"too many mounts", containerMounts + strings.Repeat(webOnline, maxObservedMounts), unknown, unknown, unknown, "2/?", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := observeMounts(t, test.mounts, views)
			for i, want := range []string{"1-2", test.online, test.cpuinfo, test.stat} {
				s := o.Sources[i]
				got := s.CPUs.String()
				if s.Error != "" {
					got += unknown
				}
				if got != want || s.Count != s.CPUs.Count() {
					t.Errorf("%s: %+v, want %q", s.Name, s, want)
				}
			}
			if got := o.Summary().String(); got != test.summary || o.View != test.view || o.IsHidden != test.isHidden {
				t.Errorf("summary %s, view %q, hidden %v; want %s, %q, %v", got, o.View, o.IsHidden, test.summary, test.view, test.isHidden)
			}
		})
	}
}

// observeMounts observes a process with the CPUs 1 and 2 and a mount table, on a machine with the CPUs 0-3.
func observeMounts(t *testing.T, mounts, views string) Observation {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(file, []byte(mounts), 0o600); err != nil {
		t.Fatal(err)
	}
	r := mountReader{views: views, online: func() (cpuset.Set, error) { return cpuset.MustParse("0-3"), nil }}
	r.table, r.err = readMountsOver(file)
	return r.observe(Source{Name: SourceAffinity, Role: Reported, CPUs: cpuset.Of(1, 2), Count: 2})
}

// writeView creates the list of a view with the given content.
func writeView(t *testing.T, dir, online string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, onlineName), []byte(online), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestObserveLongTable: Observe reads a part of a long mount table, and the content of the files is then unknown.
func TestObserveLongTable(t *testing.T) {
	const other = "50 23 0:40 / /mnt/x rw - tmpfs tmpfs rw\n"
	o := observeMounts(t, containerMounts+strings.Repeat(other, procfs.MaxTenantMounts/len(other)+1), t.TempDir())
	if _, isKnown := o.Files(); isKnown || !o.IsHidden || !strings.Contains(o.Sources[1].Error, kernelfs.ErrTooLong.Error()) {
		t.Errorf("%+v", o)
	}
	var unreadable mountReader
	unreadable.err = &fs.PathError{Op: "open", Path: "/proc/1/mountinfo", Err: fs.ErrPermission}
	if o := unreadable.observe(Source{Name: SourceAffinity, Role: Reported, CPUs: cpuset.Of(1), Count: 1}); !o.IsHidden || o.Summary().String() != "1/?" {
		t.Errorf("%+v", o)
	}
}

// TestObserveUnreadableView: the error of a file names the view.
func TestObserveUnreadableView(t *testing.T) {
	o := observeMounts(t, containerMounts+webOnline+webCPUInfo, t.TempDir())
	if want := "view web: no such file or directory"; o.Sources[1].Error != want || !o.IsHidden {
		t.Errorf("%+v, want the error %q", o.Sources[1], want)
	}
	if err := viewError("web", leaseError(unix.EWOULDBLOCK)); err.Error() != "view web: "+ErrLeased.Error() {
		t.Error(err)
	}
}

// TestObserveHost: this test process has no view, so its files show the online CPUs of the machine. A process that has ended is an error.
func TestObserveHost(t *testing.T) {
	o, err := Observe(os.Getpid(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	online, err := cpuset.Parse(strings.TrimSpace(string(readText(os.DirFS("/"), hostOnline))))
	if err != nil {
		t.Fatal(err)
	}
	own, err := procfs.Affinity(0)
	if files, isKnown := o.Files(); err != nil || !isKnown || files != online || o.CPUs() != own || o.View != "" || o.IsHidden {
		t.Errorf("%+v; want affinity %v and files %v", o, own, online)
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{0, -1, cmd.Process.Pid} {
		if o, err := Observe(pid, t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("process %d: %+v, %v; want fs.ErrNotExist", pid, o, err)
		}
	}
}

// TestObserveMounted: Observe finds the view that Mount has mounted.
func TestObserveMounted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "views", "web")
	if err := os.Mkdir(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, cpuset.Of(0)); err != nil {
		t.Fatal(err)
	}
	var got Observation
	if err := inside(t, "observe from outside", dir, &got); err != nil {
		t.Fatal(err)
	}
	if files, isKnown := got.Files(); !isKnown || files != cpuset.Of(0) || got.View != "web" || got.IsHidden {
		t.Errorf("%+v", got)
	}
}

// TestWiden: another process of the container can have more CPUs than the observed process.
func TestWiden(t *testing.T) {
	o := observeMounts(t, containerMounts, t.TempDir())
	o.Widen(cpuset.Of(3))
	if got := o.CPUs(); got != cpuset.Of(1, 2) {
		t.Errorf("CPUs %v, want 1-2", got)
	}
	o.Widen(cpuset.Of(0, 1, 2))
	if o.Summary() != (Summary{Affinity: 3, Files: 4}) {
		t.Errorf("%+v", o)
	}
	var none Observation
	none.Widen(cpuset.Of(0))
	if _, isKnown := none.Files(); isKnown || none.Summary().String() != "-" || none.CPUs() != (cpuset.Set{}) {
		t.Errorf("%+v", none)
	}
}

// TestWidenByThreads: the threads of a process count together if they have all CPUs of the container.
func TestWidenByThreads(t *testing.T) {
	own, err := procfs.Affinity(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if own.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	pinned := func() Observation {
		first := own.Lowest(1)
		return Observation{Sources: []Source{{Name: SourceAffinity, Role: Reported, CPUs: first, Count: 1}}}
	}
	o := pinned()
	if o.WidenByThreads(os.Getpid(), own); o.CPUs() != own {
		t.Errorf("CPUs %v, want %v", o.CPUs(), own)
	}
	more := own
	more.Add(cpuset.Max - 1)
	o = pinned()
	if o.WidenByThreads(os.Getpid(), more); o.CPUs() != own.Lowest(1) {
		t.Errorf("threads without a CPU of the container: CPUs %v, want %v", o.CPUs(), own.Lowest(1))
	}
	if o.WidenByThreads(0, own); o.CPUs() != own.Lowest(1) {
		t.Errorf("no process: CPUs %v, want %v", o.CPUs(), own.Lowest(1))
	}
	var none Observation
	none.WidenByThreads(os.Getpid(), own)
}

// TestObserveRemovedView: a removed file of a view has an error of its own, and any other removed file has none.
func TestObserveRemovedView(t *testing.T) {
	views := t.TempDir()
	for root, want := range map[string]string{
		"/candor/views/web/online//deleted": ErrorRemoved,
		"/home/tenant/online//deleted":      "a file of tmpfs instead of the kernel's",
	} {
		o := observeMounts(t, containerMounts+strings.Replace(webOnline, "/candor/views/web/online", root, 1), views)
		if got := o.Sources[1].Error; got != want {
			t.Errorf("%s: %q, want %q", root, got, want)
		}
	}
}

// FuzzMountAt: for any mount table, the search ends and finds a mount of the table at or above the file.
func FuzzMountAt(f *testing.F) {
	f.Add(containerMounts+webOnline, hostOnline)
	f.Add("3 4 0:5 / / rw - a a rw\n4 3 0:6 / / rw - b b rw\n", hostCPUInfo)
	f.Fuzz(func(t *testing.T, mounts, file string) {
		name := filepath.Join(t.TempDir(), "mountinfo")
		if err := os.WriteFile(name, []byte(mounts), 0o600); err != nil {
			t.Fatal(err)
		}
		table, _ := readMountsOver(name)
		if m := mountAt(table, file); m != nil && !isAtOrAbove(m.Mountpoint, file) {
			t.Error(fmt.Sprint(m.Mountpoint, " for ", file))
		}
	})
}

// BenchmarkObserve measures an observation of a process with the mount table of this machine.
func BenchmarkObserve(b *testing.B) {
	views := b.TempDir()
	for b.Loop() {
		if _, err := Observe(os.Getpid(), views); err != nil {
			b.Fatal(err)
		}
	}
}
