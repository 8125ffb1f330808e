package oci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// overrideIn returns an override with its state directory and host options in dir.
func overrideIn(dir string) *Override {
	return &Override{
		StateDir: filepath.Join(dir, "state"), Config: filepath.Join(dir, "host.json"), Parent: "/lab",
		Request: hybrid.Request{ID: "0123456789ab", Class: hybrid.Sensitive, Limit: 1500, Topology: hybrid.WholeCores},
		Spec:    spec.Spec{Period: 100 * time.Millisecond, View: spec.ViewFull, OnResize: "none", Burst: spec.Burst{Time: 20 * time.Millisecond}},
	}
}

// TestOverride: a saved override reloads to the same value. RecordUsage adds the CPU usage of its container.
func TestOverride(t *testing.T) {
	b := overrideIn(t.TempDir())
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	read := overrideIn(filepath.Dir(b.StateDir))
	read.Request.Limit, read.Applied = 0, true
	if err := read.Reload(); err != nil || !reflect.DeepEqual(read, b) {
		t.Errorf("%v, %+v; want %+v", err, read, b)
	}
	used := cgroup.Usage{CPU: time.Second, Periods: 9, Throttled: 3}
	RecordUsage(b.StateDir)(b.Request.ID, used)
	RecordUsage(b.StateDir)("another", cgroup.Usage{CPU: time.Hour})
	RecordUsage(b.StateDir)(b.Request.ID, cgroup.Usage{}) // an empty usage does not replace the recorded usage
	if err := b.Reload(); err != nil || b.Usage != used {
		t.Errorf("%v, %+v; want %+v", err, b.Usage, used)
	}
	if info, err := os.Stat(b.file()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info, err)
	}
	if err := b.Remove(); err != nil {
		t.Error(err)
	}
	if err := b.Reload(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it was removed: %v", err)
	}
	if err := b.Remove(); err != nil {
		t.Errorf("second removal: %v", err)
	}
}

// TestBadOverride: an invalid override file, an override of another container and a symbolic link are errors.
func TestBadOverride(t *testing.T) {
	b := overrideIn(t.TempDir())
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(b.file())
	if err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"unexpected EOF":             string(good[:len(good)-1]),
		"unknown field":              strings.Replace(string(good), `"parent"`, `"parents"`, 1),
		"belongs to state directory": strings.Replace(string(good), "0123456789ab", "ba9876543210", 1),
		"data after the end":         string(good) + "{}",
	} {
		if err := os.WriteFile(b.file(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readOverride(b.file()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	os.Remove(b.file())
	os.Symlink("/dev/null", b.file())
	if _, err := readOverride(b.file()); err == nil {
		t.Error("a symbolic link was followed")
	}
}

// TestOverrideOfOtherUser: the override of another user is ignored without an error, so containers start.
func TestOverrideOfOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("acts for another user: needs root")
	}
	b := overrideIn("")
	b.StateDir = fmt.Sprintf("/run/candor-oci-test-%d", os.Getpid())
	t.Cleanup(func() { os.RemoveAll(Overrides(b.StateDir)) })
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	if override, err := overrideFor(b.Request.ID); override == nil || err != nil {
		t.Errorf("%+v, %v; want the override", override, err)
	}
	runtime.LockOSThread() // Setfsuid changes the file access rights of this thread only
	defer runtime.UnlockOSThread()
	const nobody = 65534
	if err := unix.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	foreign, err := overrideFor(b.Request.ID)
	if restored := unix.Setfsuid(0); restored != nil {
		t.Fatal(restored)
	}
	if foreign != nil || err != nil {
		t.Errorf("as another user: %+v, %v", foreign, err)
	}
}

// TestOverrideBadNames: a name that has no override or cannot be a cgroup name gives no override and no
// error.
func TestOverrideBadNames(t *testing.T) {
	for _, name := range []string{"", "../x", "nobody-booked-this"} {
		if b, err := overrideFor(name); b != nil || err != nil {
			t.Errorf("%q: %+v, %v", name, b, err)
		}
	}
}

func TestWithoutSystemd(t *testing.T) {
	for line, want := range map[string]string{
		"--root /r --systemd-cgroup --log /l create --bundle /b abc": "--root /r --log /l create --bundle /b abc",
		"--cgroup-manager systemd create abc":                        "create abc",
		"--systemd-cgroup=true create abc --systemd-cgroup":          "create abc --systemd-cgroup", // after the command, the flag belongs to the command
		"create abc": "create abc",
	} {
		c := Parse(strings.Fields(line))
		got := c.withoutSystemd()
		if strings.Join(got.Args, " ") != want || got.Systemd || got.ID != "abc" || got.bundle() != c.bundle() {
			t.Errorf("%s: %+v, want %s", line, got, want)
		}
	}
}
