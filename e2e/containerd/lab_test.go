package containerd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	pause   = "lab.local/pause:1"
	busybox = "lab.local/busybox:1"
)

// A lab is a containerd with NRI (or another runtime) for a test, with candor nri.
type lab struct {
	*testing.T
	criRuntime
	dir     string // state, sockets, configuration
	bin     string // directory of containerd and its shim
	candor  string
	busybox string            // program that the containers run
	files   map[string]string // of the containers' image, besides busybox
	parent  string            // group of the pods' groups
	handler string            // of the pods' RuntimeClass; "" is containerd's own
	// manifests is a file with the rendered chart. If it is empty, startChart runs the chart's defaults with the lab's image.
	manifests string
	conn      *grpc.ClientConn
	cri       cri.RuntimeServiceClient
	engine    *daemon
	plugin    *daemon
}

// A criRuntime is a runtime that labs can start.
type criRuntime struct {
	name      string
	find      func(*lab)                  // its programs, or skips the test
	configure func(l *lab, more []string) // writes its configuration, with more lines
	command   func(*lab) (program string, args []string)
	load      func(l *lab, image string) // gives it image.tar
	prefix    string                     // before a container's id, in its group's name
	// stopFirst: a container has to be stopped before its sandbox, as the kubelet does it: else it has its grace time.
	stopFirst bool
	monitor   string // beginning of the name of the program that starts a container and copies its output
	copies    bool   // the runtime copies the output from the monitor to the log
}

// underTest is the runtime of new labs.
var underTest = containerd

var labNumber atomic.Int64

// newLab starts the runtime and candor nri, with additional lines in the configuration of containerd. The
// test removes everything.
func newLab(t *testing.T, more ...string) *lab {
	t.Helper()
	l := newEngine(t, more...)
	l.startPlugin()
	return l
}

// newEngine starts a lab as newLab does, without candor nri.
func newEngine(t *testing.T, more ...string) *lab {
	t.Helper()
	return newEngineIn(t, "", more...)
}

// newEngineIn starts a lab as newEngine does, with all state below a directory; "" is the directory for
// temporary files.
func newEngineIn(t *testing.T, base string, more ...string) *lab {
	t.Helper()
	l := &lab{T: t, criRuntime: underTest, parent: fmt.Sprintf("/candor-nri-test-%d-%d", os.Getpid(), labNumber.Add(1))}
	l.findPrograms()
	// Sockets have short paths, and the test's own folder may have a long one.
	dir, err := os.MkdirTemp(base, "candor-nri-")
	if err != nil {
		t.Fatal(err)
	}
	l.dir = dir
	t.Cleanup(func() { os.RemoveAll(dir) })
	l.configure(l, more)
	l.write("nri.yaml", "version: 1\nrepairEvery: 1s\nnode: {minShared: 100m}\nnamespaces:\n  spark: {class: sensitive}\n")
	l.connect()
	l.startEngine()
	t.Cleanup(l.clear)
	l.importImages()
	return l
}

// findPrograms skips the test if the programs are missing.
func (l *lab) findPrograms() {
	l.Helper()
	if os.Geteuid() != 0 {
		l.Skipf("starts %s: needs root", l.name)
	}
	l.find(l)
	if _, err := exec.LookPath("runc"); err != nil {
		l.Skipf("%v: make test-deps installs it", err)
	}
	l.busybox = filepath.Join(testCache(), "busybox")
	if _, err := os.Stat(l.busybox); err != nil {
		l.Skipf("no static busybox: %v: make test-deps fetches it", err)
	}
	l.candor, l.files = candorBinary(l.T), counterFiles(l.T)
}

// testCache is the directory of the programs that scripts/test-deps.sh builds and downloads.
func testCache() string {
	cache := os.Getenv("CANDOR_GUEST_CACHE")
	if cache == "" {
		base, _ := os.UserCacheDir()
		cache = filepath.Join(base, "candor-guest")
	}
	return cache
}

// candorBinary returns the path of candor: CANDOR_BIN, or a binary that it builds once.
func candorBinary(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("CANDOR_BIN"); bin != "" {
		return bin
	}
	bin := filepath.Join(builtDir(t), "candor")
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/candor")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/candor: %v\n%s", err, out)
	}
	return bin
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

func (l *lab) write(name, text string) {
	l.Helper()
	if err := os.WriteFile(l.path(name), []byte(text), 0o644); err != nil {
		l.Fatal(err)
	}
}

// A daemon is a process of a test, with its output.
type daemon struct {
	*exec.Cmd
	mu  sync.Mutex
	log bytes.Buffer
}

func (d *daemon) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(p)
}

// output returns the output of the daemon so far.
func (d *daemon) output() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

func (l *lab) start(program string, args ...string) *daemon {
	l.Helper()
	d := &daemon{Cmd: exec.Command(program, args...)}
	d.Stdout, d.Stderr = d, d
	d.Env = append(os.Environ(), "PATH="+l.bin+":"+os.Getenv("PATH"))
	// In a process group of its own, a daemon runs on after Ctrl-C until the test has removed the containers.
	d.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	d.WaitDelay = time.Second // shims keep the pipe
	if err := d.Start(); err != nil {
		l.Fatal(err)
	}
	return d
}

// kill kills a daemon with SIGKILL.
func (d *daemon) kill() { d.Process.Kill(); d.Wait() }

// connect creates the client. After a restart of containerd, the client connects again, and calls wait for
// the connection.
func (l *lab) connect() {
	l.Helper()
	var err error
	l.conn, err = grpc.NewClient("unix://"+l.path("containerd.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}}))
	if err != nil {
		l.Fatal(err)
	}
	l.cri = cri.NewRuntimeServiceClient(l.conn)
}

// startEngine starts the runtime and waits until it answers.
func (l *lab) startEngine() {
	l.Helper()
	program, args := l.command(l)
	l.engine = l.start(program, args...)
	l.wait(l.name, l.engine, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := l.cri.Version(ctx, &cri.VersionRequest{})
		return err == nil
	})
}

// startPlugin starts candor nri with additional flags, and waits until it is connected to the runtime.
func (l *lab) startPlugin(more ...string) {
	l.Helper()
	l.startPluginBy(l.candor, append(l.pluginArgs(), more...)...)
}

// startPluginBy starts candor nri as startPlugin does, through a program that executes candor.
func (l *lab) startPluginBy(program string, args ...string) {
	l.Helper()
	l.plugin = l.start(program, args...)
	l.wait("candor nri", l.plugin, func() bool { return strings.Contains(l.plugin.output(), "msg=synchronized") })
}

// pluginArgs returns the arguments of candor nri.
func (l *lab) pluginArgs() []string {
	return []string{"nri", "--config", l.path("nri.yaml"), "--socket", l.path("nri.sock"),
		"--state-dir", l.path("candor"), "--host-options", l.path("host.json"), "--cgroup-parent", l.parent + "-run"}
}

// wait waits for a condition, for at most a minute.
func (l *lab) wait(what string, of *daemon, is func() bool) {
	l.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("waited a minute for %s, its log:\n%s", what, of.output())
		}
	}
}

func (l *lab) importImages() {
	l.Helper()
	for name, files := range map[string]map[string]string{pause: nil, busybox: l.files} {
		l.importImage(name, files)
	}
}

// importImage imports an image with busybox and additional files into the runtime.
func (l *lab) importImage(name string, files map[string]string) {
	l.Helper()
	image(l.T, l.path("image.tar"), name, l.busybox, files)
	l.load(l, name)
}
