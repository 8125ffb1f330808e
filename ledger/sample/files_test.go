package sample

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/ledger"
)

var id = strings.Repeat("0123456789abcdef", 4)

func TestContainerFile(t *testing.T) {
	exec := strings.Repeat("f", 64)
	log, execIO, reader := fileUse{id, ledger.Log, ledger.Log}, fileUse{id, ledger.Exec, ledger.Exec}, fileUse{id, ledger.Read, ledger.Log}
	for path, want := range map[string]fileUse{
		"/run/containerd/io.containerd.grpc.v1.cri/containers/" + id + "/io/1/" + id + "-stdout":   log,
		"/run/containerd/io.containerd.grpc.v1.cri/containers/" + id + "/io/1/" + id + "-stderr":   log,
		"/run/containerd/io.containerd.grpc.v1.cri/containers/" + id + "/io/2/" + exec + "-stdout": execIO,
		"/run/docker/containerd/" + id + "/init-stdout":                                            log,
		"/run/docker/containerd/" + id + "/" + exec + "-stdin":                                     execIO,
	} {
		if got, ok := containerFile(path, true); !ok || got != want {
			t.Errorf("FIFO %s: got %v, %v, want %v", path, got, ok, want)
		}
	}
	for _, path := range []string{"/var/lib/docker/containers/" + id + "/" + id + "-json.log", "/var/lib/docker/containers/" + id + "/" + id + "-json.log.1"} {
		if got, ok := containerFile(path, false); !ok || got != reader {
			t.Errorf("log %s: got %v, %v, want %v", path, got, ok, reader)
		}
	}
	for _, path := range []string{"", "/", id, "/" + id, "/x/" + id[1:] + "/init-stdout", "/x/" + strings.ToUpper(id) + "/init-stdout", "/x/" + id + "/init-out", "/x/" + id + "/shim.sock"} {
		if got, ok := containerFile(path, true); ok {
			t.Errorf("FIFO %q: got %v, want none", path, got)
		}
	}
	if got, ok := containerFile("/var/lib/docker/containers/"+id+"/config.v2.json", false); ok {
		t.Errorf("config.v2.json: got %v, want none", got)
	}
}

// TestRotatedLog: a helper with writes to unknown files finds a log that has the same descriptor and path, but another inode.
func TestRotatedLog(t *testing.T) {
	dir := t.TempDir() + "/" + id
	name := dir + "/" + id + "-json.log"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	start := time.Now()
	a := &account{process: &process{Helper: Helper{PID: os.Getpid(), Name: "dockerd", Kind: ledger.Log}}, inspected: start}
	inode := func(after time.Duration) (inode uint64) {
		t.Helper()
		served, err := a.serve(&cycle{now: start.Add(after), owners: &owners{}})
		if err != nil || !slices.Equal(served, []string{id}) {
			t.Fatalf("got %v, %v", served, err)
		}
		a.served = served
		for key, use := range a.uses {
			if use.container == id {
				inode = key.Inode
			}
		}
		return inode
	}
	before := inode(0)
	for range settlingUpdates {
		inode(0)
	}
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	createOver(t, name, log)
	if got := inode(unknownEvery); got != before {
		t.Errorf("without unknown writes: got inode %d, want %d as before", got, before)
	}
	a.unknown = maxUnknown
	if got := inode(unknownEvery / 2); got != before {
		t.Errorf("soon after the last inspection: got inode %d, want %d as before", got, before)
	}
	if got := inode(unknownEvery); got == before || got == 0 || a.unknown != 0 {
		t.Errorf("with unknown writes: got inode %d as before, unknown %d", got, a.unknown)
	}
	// Without a new file, the early inspections become rare.
	var inspections []time.Duration
	for at := unknownEvery; at < time.Minute; at += time.Second {
		a.unknown = maxUnknown
		if inode(at); a.unknown == 0 {
			inspections = append(inspections, at)
		}
	}
	if n := len(inspections); n < 5 || inspections[n-1]-inspections[n-2] < inspectEvery {
		t.Errorf("inspections after %v", inspections)
	}
	// After a new file, they are frequent again.
	if err := os.Rename(name, name+".2"); err != nil {
		t.Fatal(err)
	}
	last := createOver(t, name, log)
	for at := time.Minute; a.patience > unknownEvery && at < 2*time.Minute; at += time.Second {
		a.unknown = maxUnknown
		if got := inode(at); a.unknown == 0 && got != last {
			t.Errorf("after the second rotation: got inode %d, want %d", got, last)
		}
	}
	if a.patience != unknownEvery {
		t.Errorf("after a new file: got %v until the next early inspection, want %v", a.patience, unknownEvery)
	}
}

// createOver creates a file and lets the descriptor of another file refer to it. It returns the inode.
func createOver(t *testing.T, name string, old *os.File) (inode uint64) {
	t.Helper()
	next, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := unix.Dup3(int(next.Fd()), int(old.Fd()), unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(next.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func FuzzContainerFile(f *testing.F) {
	f.Add("/run/docker/containerd/"+id+"/init-stdout", true)
	f.Add("/var/lib/docker/containers/"+id+"/"+id+"-json.log", false)
	f.Fuzz(func(t *testing.T, path string, isFIFO bool) {
		if u, ok := containerFile(path, isFIFO); ok && (!isContainerID(u.container) || !strings.Contains(path, "/"+u.container+"/") && !strings.HasPrefix(path, u.container+"/")) {
			t.Errorf("%q: got container %q", path, u.container)
		}
	})
}

func TestParsePodContainer(t *testing.T) {
	text := `{"annotations":{"io.kubernetes.cri.container-name":"app","io.kubernetes.cri.sandbox-name":"web-0",
		"io.kubernetes.cri.sandbox-namespace":"shop","io.kubernetes.cri.sandbox-uid":"1234"}}`
	p, ok := parsePodContainer([]byte(text))
	if got := p.logDirectory(); !ok || got != "shop_web-0_1234/app" {
		t.Errorf("got %q, %v", got, ok)
	}
	o := owners{logs: map[string]string{"shop_web-0_1234/app": id}}
	for path, want := range map[string]string{
		"/var/log/pods/shop_web-0_1234/app/0.log":   id,
		"/var/log/pods/shop_web-0_1234/other/0.log": "",
		"/0.log": "",
	} {
		if u, ok := o.podLog(path); !ok || u.container != want {
			t.Errorf("%s: got container %q, %v, want %q", path, u.container, ok, want)
		}
	}
	if _, ok := o.podLog("/var/lib/containerd/meta.db"); ok {
		t.Error("a database counts as a log")
	}
	for _, bad := range []string{"", "{", "[]", `{"annotations":[]}`, `{"annotations":{"io.kubernetes.cri.sandbox-name":"web-0"}}`} {
		if _, ok := parsePodContainer([]byte(bad)); ok {
			t.Errorf("%q: got a container of a pod", bad)
		}
	}
}

func FuzzParsePodContainer(f *testing.F) {
	f.Add([]byte(`{"annotations":{"io.kubernetes.cri.container-name":"app","io.kubernetes.cri.sandbox-name":"web-0"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, ok := parsePodContainer(text); ok && (p.pod == "" || p.container == "") {
			t.Errorf("%q: got %+v", text, p)
		}
	})
}

func TestPipeInode(t *testing.T) {
	if inode, ok := pipeInode("pipe:[4711]"); !ok || inode != 4711 {
		t.Errorf("got %d, %v, want 4711", inode, ok)
	}
	for _, link := range []string{"", "pipe:[", "pipe:[x]", "pipe:[-1]", "socket:[4711]", "/dev/null"} {
		if inode, ok := pipeInode(link); ok {
			t.Errorf("%q: got %d, want none", link, inode)
		}
	}
}

// TestInspect: the key of an open FIFO has the device and inode of fstat(2), with the kernel's encoding of the device.
func TestInspect(t *testing.T) {
	dir := t.TempDir() + "/" + id
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	name := dir + "/init-stdout"
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(fifo.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	var open openFiles
	for range 2 { // the second call takes the remembered descriptors
		_, err := open.update(os.Getpid(), false, &owners{})
		uses := open.uses()
		want := fileKey{uint32(os.Getpid()), unix.Major(st.Dev)<<20 | unix.Minor(st.Dev), st.Ino}
		if err != nil || uses[want] != (fileUse{id, ledger.Log, ledger.Log}) {
			t.Errorf("got %v, %v, want %v", uses, err, want)
		}
	}
	fifo.Close()
	if _, err := open.update(os.Getpid(), false, &owners{}); err != nil || len(open.uses()) != 0 {
		t.Errorf("after the close: got %v, %v", open.uses(), err)
	}
}

// TestAmbiguousPipe: a pipe that two containers have as their output has no owner. The other pipes of these containers keep theirs.
func TestAmbiguousPipe(t *testing.T) {
	// pipe returns the writing end of a new pipe and its inode.
	pipe := func() (*os.File, uint64) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close(); w.Close() })
		inode, ok := pipeInode(readLink(t, fmt.Sprintf("/proc/self/fd/%d", w.Fd())))
		if !ok {
			t.Fatal("no inode of a pipe")
		}
		return w, inode
	}
	shared, sharedInode := pipe()
	o := owners{pipes: map[uint64]string{}}
	want := map[uint64]string{sharedInode: ""}
	for _, id := range []string{id, strings.Repeat("f", 64)} {
		own, inode := pipe()
		want[inode] = id
		process := exec.Command("sleep", "1000")
		process.Stdout, process.Stderr = shared, own
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { process.Process.Kill(); process.Wait() })
		o.addPipes(process.Process.Pid, id)
	}
	if !maps.Equal(o.pipes, want) {
		t.Errorf("got %v, want %v", o.pipes, want)
	}
}

// TestRestartedContainer: after a restart, the log directory belongs to the container that runs.
func TestRestartedContainer(t *testing.T) {
	const dir = "default_web_1/app"
	inits := map[int]initProcess{os.Getpid(): {1, "new"}}
	s := &Source{known: map[string]bool{"old": true, "older": true, "new": true}, logs: map[string]string{"old": dir, "older": dir, "new": dir}}
	for range 20 { // the order of the containers is random
		s.processes.inits = inits
		if o := s.findOwners(); o.logs[dir] != "new" || o.isUnclear {
			t.Fatalf("got %q, unclear %v, want the running container", o.logs[dir], o.isUnclear)
		}
		s.processes.inits = nil
		if o := s.findOwners(); !o.isUnclear || o.logs[dir] != "new" { // the first ID, so that the owner does not change
			t.Fatalf("no process of a container is known: got %q, unclear %v", o.logs[dir], o.isUnclear)
		}
	}
}

func readLink(t *testing.T, name string) string {
	t.Helper()
	text, err := os.Readlink(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
