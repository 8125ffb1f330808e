package sample

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/nodeproc"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/ledger"
)

// A Helper is a process that works for containers.
type Helper struct {
	PID       int
	Name      string      // name of the program: containerd, dockerd, containerd-shim-runc-v2, conmon, …
	Kind      ledger.Kind // Log or Shim
	Container string      // ID of the only container that it serves; "" if it can serve several
	Cgroup    string      // cgroup that pays for the helper, as a path of the cpu controller
	Serves    []string    // IDs of the containers that it serves, sorted; set by Source.Helpers
	bundles   string      // directory of the shim's bundles, or ""
	program   string      // name of the executed file, which can differ from Name
}

// isShim reports whether the helper is a shim of containerd.
func (h *Helper) isShim() bool { return h.Kind == ledger.Shim }

const (
	containerd = "containerd"
	k3s        = "k3s" // k3s is a single program for containerd, the kubelet and others; argument 0 selects one of them
	shimPrefix = "containerd-shim"
)

// isHelperName reports whether a program of this name can be a helper. Every process can choose its name.
func isHelperName(comm string) bool {
	return comm == containerd || comm == "dockerd" || comm == "conmon" || strings.HasPrefix(comm, shimPrefix)
}

// helperOf returns the Helper for a process, or nil if the process is no helper. It only trusts processes of root outside of
// containers, because a tenant could run a program with the name of a helper.
func helperOf(here *nodeproc.Viewpoint, pid int) *Helper {
	dir := procDir(pid)
	_, at, ok := here.Locate(dir)
	if !ok || at.Container != "" {
		return nil
	}
	program, err := nodeproc.Program(dir)
	if err != nil {
		return nil
	}
	words, err := procfs.CommandLine(dir)
	if err != nil || len(words) == 0 {
		return nil
	}
	h := &Helper{PID: pid, Name: program, Kind: ledger.Log, Cgroup: at.Cgroup, program: program}
	if program == k3s && filepath.Base(words[0]) == containerd {
		h.Name = containerd
	}
	switch {
	case (h.Name == containerd || h.Name == "dockerd") && !at.InPod:
		return h
	case program == "conmon":
		h.Container = after(words, "-c")
		return h.ifValid()
	case strings.HasPrefix(program, shimPrefix):
		h.Kind = ledger.Shim
		if bundle, err := os.Readlink(dir + "/cwd"); err == nil {
			h.bundles = filepath.Dir(bundle)
		}
		if after(words, "-namespace") == "k8s.io" { // the shim of a pod
			return h
		}
		h.Container = after(words, "-id")
		return h.ifValid()
	}
	return nil
}

// DedicatedHelper returns the helper that serves only the given container. parent is the parent process of the container's OCI runtime. The
// helper is the parent itself (conmon), or a child of the parent (the binary logger of a shim). It returns nil if there is no such helper.
// A shim is no dedicated helper, because it also starts the container's processes.
func DedicatedHelper(parent int, container string) *Helper {
	here := nodeproc.Own("/proc")
	dir := procDir(parent)
	_, at, ok := here.Locate(dir)
	if !ok || at.Container != "" {
		return nil
	}
	if h := helperOf(&here, parent); h != nil && h.Kind == ledger.Log && h.Container == container {
		return h
	}
	if program, err := nodeproc.Program(dir); err != nil || !strings.HasPrefix(program, shimPrefix) {
		return nil
	}
	pids, err := processIDs()
	if err != nil {
		return nil
	}
	for _, pid := range pids {
		if stat, err := procfs.ReadStat(pid); err != nil || stat.Parent != parent {
			continue
		}
		if _, at, ok := here.Locate(procDir(pid)); !ok || at.Container != "" {
			continue
		}
		if h := loggerOf(pid, at.Cgroup); h != nil && h.Container == container {
			return h
		}
	}
	return nil
}

func (h *Helper) ifValid() *Helper {
	if !isContainerID(h.Container) {
		return nil
	}
	return h
}

// loggerOf returns the helper for a binary logger, such as nerdctl's: a child of a shim that has the container's ID in its
// environment (containerd, runtime/v2/README.md#logging).
func loggerOf(pid int, cgroup string) *Helper {
	dir := procDir(pid)
	text, _, err := kernelfs.ReadStart(dir+"/environ", maxEnvironment)
	if err != nil {
		return nil
	}
	for word := range strings.SplitSeq(string(text), "\x00") {
		id, ok := strings.CutPrefix(word, "CONTAINER_ID=")
		if !ok {
			continue
		}
		program, err := nodeproc.Program(dir)
		if err != nil || program == "runc" {
			return nil
		}
		h := &Helper{PID: pid, Name: program, Kind: ledger.Log, Container: id, Cgroup: cgroup, program: program}
		return h.ifValid()
	}
	return nil
}

const maxEnvironment = 64 << 10 // maximum number of bytes to read from a logger's environment

func procDir(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// after returns the word after a flag, or "".
func after(words []string, flag string) string {
	at := slices.Index(words, flag)
	if at < 0 || at+1 == len(words) {
		return ""
	}
	return words[at+1]
}

// A processTable finds the helpers and the processes that shims start. A process is inspected in two consecutive scans,
// because in the first scan it may not have executed its program yet.
type processTable struct {
	here    nodeproc.Viewpoint
	seen    map[int]int // number of inspections by process ID
	helpers map[int]*process
	inits   map[int]initProcess // by process ID
	lastID  int                 // the ID that the kernel had allocated last at the last scan
	idle    int                 // consecutive scans without a new process or thread
}

// An initProcess is a process that a shim started in a container: the first process, or a process of exec.
type initProcess struct {
	shim      int
	container string
}

// A process is a helper with a pidfd, which shows the end of the process even if another process gets the ID.
type process struct {
	Helper
	pidfd int
}

const inspections = 2

// scan adds the new helpers, and returns the helpers that have ended. If rescan is true, scan inspects all processes again,
// because a process ID can be reused between two scans, and a helper can execute another program. isIdle reports that no process
// and no thread has started since the scan before the previous scan.
func (t *processTable) scan(rescan bool) (ended []*process, isIdle bool, err error) {
	for _, p := range t.endedHelpers(rescan) {
		unix.Close(p.pidfd)
		delete(t.helpers, p.PID)
		ended = append(ended, p)
	}
	if isIdle = t.countIdle() >= inspections && !rescan; isIdle {
		return ended, true, nil
	}
	pids, err := processIDs()
	if err != nil {
		return ended, false, err
	}
	next := make(map[int]int, len(pids))
	var recent []int
	for _, pid := range pids {
		count := t.seen[pid]
		if rescan {
			count = inspections - 1
		}
		next[pid] = min(count+1, inspections)
		if count < inspections && t.helpers[pid] == nil {
			recent = append(recent, pid)
		}
	}
	t.inspect(recent)
	for pid := range t.inits {
		if next[pid] == 0 {
			delete(t.inits, pid)
		}
	}
	t.seen = next
	return ended, false, nil
}

// countIdle returns the number of consecutive scans without a new process or thread. It reads the ID that the kernel has allocated
// last, which is the end of /proc/loadavg (proc_loadavg(5)).
func (t *processTable) countIdle() int {
	text, err := kernelfs.ReadPiece("/proc/loadavg")
	words := strings.Fields(string(text))
	if err != nil || len(words) == 0 {
		return 0
	}
	last, err := strconv.Atoi(words[len(words)-1])
	if err != nil || last != t.lastID {
		t.lastID, t.idle = last, 0
		return 0
	}
	t.idle++
	return t.idle
}

// endedHelpers returns the helpers that have ended; with rescan also those that execute another program.
func (t *processTable) endedHelpers(rescan bool) (ended []*process) {
	all := make([]*process, 0, len(t.helpers))
	poll := make([]unix.PollFd, 0, len(t.helpers))
	for _, p := range t.helpers {
		all, poll = append(all, p), append(poll, p.poll())
	}
	if _, err := unix.Poll(poll, 0); err != nil {
		return nil // a signal: the next scan finds them
	}
	for i, p := range all {
		if poll[i].Revents != 0 || rescan && p.hasChanged() {
			ended = append(ended, p)
		}
	}
	return ended
}

// inspect adds the helpers among the given processes, and the children of shims.
func (t *processTable) inspect(pids []int) {
	parents := map[int]int{}
	for _, pid := range pids {
		if stat, err := procfs.ReadStat(pid); err == nil && (!isHelperName(stat.Comm) || !t.add(pid, helperOf)) {
			parents[pid] = stat.Parent
		}
	}
	for pid, parent := range parents {
		if shim := t.helpers[parent]; shim != nil && shim.isShim() {
			t.addChild(pid, parent)
		}
	}
}

// add adds a process if it is a helper according to inspect.
func (t *processTable) add(pid int, inspect func(*nodeproc.Viewpoint, int) *Helper) bool {
	// The descriptor comes first: if the process ends during the inspection and its ID is reused, hasEnded reports it.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	p := &process{pidfd: fd}
	if h := inspect(&t.here, pid); h != nil && !p.hasEnded() {
		p.Helper = *h
		t.helpers[pid] = p
		return true
	}
	unix.Close(fd)
	return false
}

// addChild adds a process whose parent is a shim: a logger, or a process in a container.
func (t *processTable) addChild(pid, shim int) {
	dir := procDir(pid)
	at, err := t.here.Place(dir)
	if err != nil {
		return
	}
	if at.Container != "" {
		t.inits[pid] = initProcess{shim, at.Container}
		return
	}
	t.add(pid, func(here *nodeproc.Viewpoint, pid int) *Helper {
		if _, at, ok := here.Locate(dir); ok && at.Container == "" {
			return loggerOf(pid, at.Cgroup)
		}
		return nil
	})
}

func (t *processTable) close() {
	for _, p := range t.helpers {
		unix.Close(p.pidfd)
	}
	t.helpers = nil
}

// poll returns the input of poll(2) for the process. The descriptor is readable when the process has ended (pidfd_open(2)).
func (p *process) poll() unix.PollFd { return unix.PollFd{Fd: int32(p.pidfd), Events: unix.POLLIN} }

func (p *process) hasEnded() bool {
	n, err := unix.Poll([]unix.PollFd{p.poll()}, 0)
	return err == nil && n > 0
}

// hasChanged reports whether the process executes another program than at its inspection. To start a shim, a daemon forks, and the child
// executes the shim. Before that, the child looks like the daemon.
func (p *process) hasChanged() bool {
	program, err := nodeproc.Program(procDir(p.PID))
	return err == nil && program != p.program
}

// processIDs lists the processes.
func processIDs() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// hasGone reports whether an error means that a process, or a file of the process, no longer exists.
func hasGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
}

func (h *Helper) String() string { return fmt.Sprintf("%s (process %d)", h.Name, h.PID) }
