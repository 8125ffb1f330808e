package containerd

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/ledgertables"
)

// A copierEngine is containerd without CRI, in a guest. The shim of each container starts a logging binary, e2e/ledgertables/copier, as the
// shims of nerdctl do. The copier is in the engine's group, with the methods None and Patch. The groups in the hierarchy of cpu, with N of the
// process ID:
//
//	/candor-ledger-engine-N         containerd, its shims and the copiers
//	/candor-ledger-containers-N/ID  a container with its quota
type copierEngine struct {
	*lab
	containers string // parent group of the containers
	group      string // of the engine
	number     int    // of the last container
}

const copierConfig = `version = 3
root  = "DIR/root"
state = "DIR/state"
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri"]

[grpc]
  address = "DIR/containerd.sock"
[ttrpc]
  address = "DIR/containerd.sock.ttrpc"
`

// Paths in the guest.
const (
	copierProgram  = "/guest/copier"
	ledgerCellMark = "candor-ledger-cell " // starts a line with the result of a cell
)

// TestLedgerCells runs in a guest. It measures cells, and prints a line for each result:
//
//	CANDOR_LEDGER_CELLS=JSON
func TestLedgerCells(t *testing.T) {
	text := os.Getenv("CANDOR_LEDGER_CELLS")
	if text == "" {
		t.Skip("runs in the guest of TestLedgerTables")
	}
	var cells []ledgertables.Cell
	if err := json.Unmarshal([]byte(text), &cells); err != nil {
		t.Fatal(err)
	}
	b := &ledgerBench{T: t, ledgerEngine: newCopierEngine(t), ctx: t.Context(), cpu: 0, isGuest: true}
	for _, c := range cells {
		result, err := json.Marshal(b.measure(c))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s%s\n", ledgerCellMark, result)
	}
}

func newCopierEngine(t *testing.T) *copierEngine {
	t.Helper()
	e := &copierEngine{lab: &lab{T: t, dir: t.TempDir()}, group: newEngineGroup(t), containers: fmt.Sprintf("/candor-ledger-containers-%d", os.Getpid())}
	findContainerd(e.lab)
	t.Cleanup(func() { removeLedgerGroups(t, e.containers) })
	makeGroup(t, e.containers)
	e.makeRoot()
	e.write("containerd.toml", strings.ReplaceAll(copierConfig, "DIR", e.dir))
	e.engine = e.start(filepath.Join(e.bin, "containerd"), "--config", e.path("containerd.toml"))
	t.Cleanup(e.engine.kill)
	moveProcess(t, e.engine.Process.Pid, e.group)
	e.wait("containerd", e.engine, func() bool {
		conn, err := net.Dial("unix", e.path("containerd.sock"))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return e
}

// makeRoot creates the root file system of the containers: busybox.
func (e *copierEngine) makeRoot() {
	e.Helper()
	program, err := os.ReadFile(filepath.Join(testCache(), "busybox"))
	if err == nil {
		err = os.MkdirAll(e.path("rootfs/bin"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(e.path("rootfs/bin/busybox"), program, 0o755)
	}
	for _, name := range []string{"sh", "yes", "cat", "dd"} {
		if err == nil {
			err = os.Symlink("busybox", e.path("rootfs/bin/"+name))
		}
	}
	if err != nil {
		e.Fatal(err)
	}
}

func (e *copierEngine) engineGroup() string { return e.group }

// ctr runs a command of containerd's client, which must succeed.
func (e *copierEngine) ctr(args ...string) {
	e.Helper()
	cmd := exec.Command(filepath.Join(e.bin, "ctr"), append([]string{"--address", e.path("containerd.sock")}, args...)...)
	cmd.WaitDelay = time.Minute
	if out, err := cmd.CombinedOutput(); err != nil {
		e.Fatalf("ctr %s: %v\n%s\ncontainerd:\n%s", strings.Join(args, " "), err, out, e.engine.output())
	}
}

func (e *copierEngine) source(method ledgertables.Method, quota time.Duration, script string) *ledgerSource {
	e.Helper()
	e.number++
	name := fmt.Sprintf("c%d", e.number)
	s := &ledgerSource{parent: e.containers, group: e.containers + "/" + name, payer: e.group, log: e.path(name + ".log")}
	settings := url.Values{"-log": {s.log}}
	if method == ledgertables.Patch {
		settings.Set("-charge", "/sys/fs/cgroup/cpu"+s.group+"/cpu.cfs_borrowing_us")
	}
	logger := url.URL{Scheme: "binary", Path: copierProgram, RawQuery: settings.Encode()}
	e.ctr("run", "--detach", "--rootfs", "--env=PATH=/bin", "--pid-file="+e.path("pid"), "--log-uri="+logger.String(), "--cgroup="+s.group, "--cpu-shares=1024",
		"--cpu-period="+strconv.FormatInt(ledgertables.Period.Microseconds(), 10), "--cpu-quota="+strconv.FormatInt(quota.Microseconds(), 10),
		e.path("rootfs"), name, "/bin/sh", "-c", script)
	s.helper = e.copierOf(s)
	s.end = func() {
		e.Helper()
		e.ctr("tasks", "delete", "--force", name)
		e.ctr("containers", "delete", name)
		removeLedgerGroups(e.T, s.group)
		if err := os.Remove(s.log); err != nil {
			e.Fatal(err)
		}
	}
	return s
}

// copierOf returns the process ID of the copier of a new container. It fails the test if a process is not in its group.
func (e *copierEngine) copierOf(s *ledgerSource) int {
	e.Helper()
	text, err := os.ReadFile(e.path("pid"))
	if err != nil {
		e.Fatal(err)
	}
	program, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		e.Fatal(err)
	}
	copier, err := loggerOf(program, s.log)
	if err != nil {
		e.Fatal(err)
	}
	if own, payer := cpuGroup(e.T, program), cpuGroup(e.T, copier); own != s.group || payer != s.payer {
		e.Fatalf("the container is in %s, its copier in %s; must be %s and %s", own, payer, s.group, s.payer)
	}
	return copier
}
