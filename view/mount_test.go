package view

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/procfs"
)

// TestMount: programs in a view report its number of CPUs. Shrunk views have files that are padded with
// newlines. The mounts must not appear on the host.
func TestMount(t *testing.T) {
	before := answers()
	hostOnlineText, _ := os.ReadFile(hostOnline)
	host, err := parseOnline(hostOnlineText)
	if err != nil {
		t.Fatal(err)
	}
	single := cpuset.Of(host.Last())
	tests := []struct {
		name  string
		views []cpuset.Set // written in this order
	}{
		{"one CPU", []cpuset.Set{single}},
		{"shrunk to one CPU", []cpuset.Set{host, single}},
		{"all CPUs", []cpuset.Set{single, host}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "view")
			var last cpuset.Set
			for _, last = range test.views {
				if err := Write(dir, last); err != nil {
					t.Fatal(err)
				}
			}
			var got map[string]string
			if err := inside(t, "mount", dir, &got); err != nil {
				t.Fatal(err)
			}
			checkAnswers(t, got, before, last)
			least := 8
			if os.Getenv("CANDOR_IN_GUEST") != "" {
				least = 4
			}
			if len(got) < least {
				t.Errorf("only %d programs answered: %v", len(got), got)
			}
		})
	}
	err = procfs.EachMount("/proc/self/mountinfo", procfs.MaxHostMounts, []string{hostOnline, hostCPUInfo}, func(m *mountinfo.Info) {
		if m.Mountpoint == hostOnline || m.Mountpoint == hostCPUInfo {
			t.Errorf("%s is mounted over on the host", m.Mountpoint)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkAnswers compares the answers of programs in a view with its CPUs. before has the answers outside of
// the view.
func checkAnswers(t *testing.T, got, before map[string]string, cpus cpuset.Set) {
	t.Helper()
	for name, answer := range got {
		if strings.HasSuffix(answer, ": not found") { // a small guest lacks some programs
			delete(got, name)
			continue
		}
		want := strconv.Itoa(cpus.Count())
		switch name {
		case "nproc", "glibc CONF", "lscpu model": // the view does not change these
			want = before[name]
		case "lscpu online", "shell list":
			list, err := cpuset.Parse(answer) // lscpu writes 0,1 for 0-1
			if err == nil && list == cpus {
				answer = want
			}
		}
		if answer != want {
			t.Errorf("%s prints %q, want %q", name, answer, want)
		}
	}
}

// TestNoSpaceLeft: on a full file system, a view that would grow stays unchanged. A view of the same size can
// still change its CPUs.
func TestNoSpaceLeft(t *testing.T) {
	var got []string
	if err := inside(t, "full", t.TempDir(), &got); err != nil {
		t.Fatal(err)
	}
	want := []string{"no space left on device", "true", "1-5", "<nil>", "2-6"}
	for i := range want {
		if got[i] != want[i] && (i > 0 || !strings.Contains(got[i], want[i])) {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

func TestMountedViewIsReadOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "view")
	if err := Write(dir, cpuset.Of(0)); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := inside(t, "break", dir, &got); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"read-only file system", "read-only file system", "permission denied"} {
		if !strings.Contains(got[i], want) {
			t.Errorf("got %q, want %q", got[i], want)
		}
	}
}

func TestMountRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "view")
	if err := Write(dir, cpuset.Of(0)); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	half := filepath.Join(t.TempDir(), "half") // only online exists: no mount may remain
	if err := Write(half, cpuset.Of(0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(half, "cpuinfo")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, dir, want string
	}{
		{"a link", link, "symbolic link: refused"},
		{"no directory", dir + "-missing", "no such file"},
		{"no files", empty, "online: no such file"},
		{"half a view", half, "cpuinfo: no such file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got any
			err := inside(t, "mount", test.dir, &got)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
	for work, want := range map[string]string{
		"no sysfs": "cannot mount " + dir + "/online; is the file system of its target mounted? lstat " + hostOnline,
		"child":    "not in a mount namespace of its own; the whole machine would get this view",
	} {
		t.Run(work, func(t *testing.T) {
			var got string
			if err := inside(t, work, dir, &got); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got, want) {
				t.Errorf("error is %q, want %q", got, want)
			}
		})
	}
}
