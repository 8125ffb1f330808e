package procfs

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

var root, nobody = [4]int{}, [4]int{65534, 65534, 65534, 65534}

func TestParseIdentity(t *testing.T) {
	const status = "Name:\ta b\\nUid:\nUmask:\t0022\nUid:\tUIDS\nGroups:\t0 \nNSpid:\tPIDS\n"
	for _, test := range []struct {
		uids, pids string
		want       Identity
	}{
		{"0\t0\t0\t0", "7", Identity{`a b\nUid:`, root, 1}},
		{"0\t0\t0\t0", "7\t1", Identity{`a b\nUid:`, root, 2}},
		{"1000\t0\t0\t0", "7", Identity{`a b\nUid:`, [4]int{1000, 0, 0, 0}, 1}}, // a set-user-ID program
		{"0\t1000\t0\t0", "7", Identity{`a b\nUid:`, [4]int{0, 1000, 0, 0}, 1}},
		{"65534\t65534\t65534\t65534", "7\t3\t1", Identity{`a b\nUid:`, nobody, 3}},
	} {
		text := strings.NewReplacer("UIDS", test.uids, "PIDS", test.pids).Replace(status)
		if got, err := parseIdentity([]byte(text)); err != nil || got != test.want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, test.want)
		}
	}
	for _, bad := range []string{"", "Name:\tx\nUid:\t0\t0\t0\t0\n", "Name:\tx\nNSpid:\t1\n", "Uid:\t0\nNSpid:\t1\n", "Uid:\t0\t0\t0\t0\nNSpid:\t1",
		"Uid:\t0\t0\t0\tx\nNSpid:\t1\n"} {
		if got, err := parseIdentity([]byte(bad)); err == nil || got != (Identity{}) {
			t.Errorf("%q: %+v, %v; want an error", bad, got, err)
		}
	}
}

func TestIsUser(t *testing.T) {
	for users, want := range map[[4]int]bool{root: true, nobody: false, {0, 0, 0, 1}: false, {1000, 0, 0, 0}: false} {
		if id := (Identity{Users: users}); id.IsUser(0) != want {
			t.Errorf("%v: %v; want %v", users, !want, want)
		}
	}
}

// TestNameOf: a name with control characters is quoted.
func TestNameOf(t *testing.T) {
	runtime.LockOSThread() // not unlocked, because the name of the thread changes
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&append([]byte("\x1b[2J\n"), 0)[0])), 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if got := NameOf(unix.Gettid()); got != `"\x1b[2J\n"` {
		t.Errorf("%s", got)
	}
	if got := NameOf(1 << 30); got != "" {
		t.Errorf("no such process: %q", got)
	}
	for name, want := range map[string]string{"java": "java", "a b": "a b", "é": "é", "a\x80": `"a\x80"`, "\u202eb": `"\u202eb"`, `a"b`: `"a\"b"`} {
		if got := Printable(name); got != want {
			t.Errorf("%q: %s; want %s", name, got, want)
		}
	}
}

func FuzzParseIdentity(f *testing.F) {
	f.Add([]byte("Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if id, err := parseIdentity(text); (err == nil) != (id.Namespaces > 0) {
			t.Errorf("%q: %+v, %v", text, id, err)
		}
	})
}

// TestReadIdentity reads the identity of processes of this user, of another user and of another PID
// namespace.
func TestReadIdentity(t *testing.T) {
	self, err := ReadIdentity("/proc/self")
	if err != nil || !self.IsUser(os.Getuid()) || self.Namespaces < 1 {
		t.Fatalf("%+v, %v", self, err)
	}
	if _, err := ReadIdentity("/proc/1073741824"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such process: %v", err)
	}
	if os.Getuid() != 0 {
		t.Skip("starts processes of other users and namespaces: needs root")
	}
	otherUser := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 65534, Size: 1}}
	for name, test := range map[string]struct {
		attributes syscall.SysProcAttr
		want       Identity
	}{
		"another user":  {syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, Identity{"sleep", nobody, self.Namespaces}},
		"pid namespace": {syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}, Identity{"sleep", root, self.Namespaces + 1}},
		"root of a user namespace": {syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: otherUser, GidMappings: otherUser,
			Credential: &syscall.Credential{NoSetGroups: true}}, Identity{"sleep", nobody, self.Namespaces}},
		"many groups": {syscall.SysProcAttr{Credential: &syscall.Credential{Groups: manyGroups()}}, Identity{}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sleep", "60")
			cmd.SysProcAttr = &test.attributes
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { cmd.Process.Kill(); cmd.Wait() }()
			got, err := ReadIdentity(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid)))
			if got != test.want || (err != nil) != (test.want == Identity{}) {
				t.Errorf("%+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

func manyGroups() (groups []uint32) {
	for gid := range uint32(2000) {
		groups = append(groups, 100_000+gid)
	}
	return groups
}
