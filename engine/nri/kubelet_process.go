package nri

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/internal/nodeproc"
	"github.com/candor-project/candor/internal/procfs"
)

// Any process can call itself kubelet, so findKubelets accepts only processes that root of the node runs outside of pods and
// containers (package nodeproc). A kubelet in a cgroup without a container ID, as on Talos (/podruntime/kubelet), is accepted. A local user
// can start a set-user-ID program through a link, whose name becomes comm, and the program can set all its user IDs to 0. Only
// /proc/PID/exe shows the real program, so a process with an unreadable exe is not accepted.

// A kubelet describes a running kubelet. For a kubelet that does not run, only root and dir (a usual directory) are set, and
// words if dir has a configuration file (installedKubelets).
type kubelet struct {
	pid     string   // "" for a kubelet that does not run
	program string   // kubelet, hyperkube, k3s or kubelite
	words   []string // the command line
	root    string   // root directory of its file system, in this process's file system
	cwd     string   // its working directory, within root
	dir     string   // its --root-dir, within root
}

// ignoredKubelet is the end of each error about a process that only resembles a kubelet.
const ignoredKubelet = ": ignored as a kubelet; if it is the kubelet of this node, set its cpuManagerPolicy: none"

const microK8sRoot = "/var/snap/microk8s/common/var/lib/kubelet"

// knownRoots are the values of --root-dir in distributions; the last is from k0s. k3s and RKE2 use the kubelet's default.
var knownRoots = []string{kubeletRoot, microK8sRoot, "/var/lib/k0s/kubelet"}

// findKubelets returns the kubelets of this node among the processes below root/proc. It ignores processes in pods, of users
// other than root, and of inner PID namespaces. It also omits processes that have the command line of a kubelet, but run in a
// container or have another program file. The result unclear names the latter processes.
func findKubelets(root string) (found []kubelet, unclear error) {
	return findProcesses(root, kubeletOf)
}

// findProcesses calls the function in the argument of with the directory of each process below root/proc, and returns the results
// that are not nil. The result unclear joins the first errors of these calls.
func findProcesses[T any](root string, of func(here *nodeproc.Viewpoint, dir string) (*T, error)) (found []T, unclear error) {
	proc := filepath.Join(root, "proc")
	processes, err := processFolders(proc)
	if err != nil {
		return nil, err
	}
	here := nodeproc.Own(proc)
	var doubts []error
	for _, dir := range processes {
		v, err := of(&here, dir)
		if err != nil {
			doubts = append(doubts, err)
		} else if v != nil {
			found = append(found, *v)
		}
	}
	return found, joinFew(doubts)
}

// processFolders returns the directories of all processes in procfs. If procfs is missing, the list is empty.
func processFolders(proc string) (folders []string, err error) {
	entries, err := os.ReadDir(proc)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err == nil {
			folders = append(folders, filepath.Join(proc, entry.Name()))
		}
	}
	return folders, nil
}

// joinFew joins a bounded number of errors, so that the line does not grow with the processes of the node.
func joinFew(errs []error) error {
	const most = 3
	var all error
	for i, err := range errs {
		switch {
		case all == nil:
			all = err
		case i == most:
			return fmt.Errorf("%w; and %d more", all, len(errs)-most)
		default:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// kubeletOf returns the kubelet that a process runs, given its directory in /proc, or nil. It returns an error for a process that
// only resembles a kubelet.
func kubeletOf(here *nodeproc.Viewpoint, dir string) (*kubelet, error) {
	// The cheap and trustworthy files come first: a tenant can make a command line long.
	id, at, ok := here.Locate(dir)
	if !ok || at.InPod {
		return nil, nil
	}
	words, err := procfs.CommandLine(dir)
	if err != nil {
		return nil, nil //nolint:nilerr // the process has ended
	}
	program := kubeletProgram(words)
	if program == "" {
		return nil, nil
	}
	pid := filepath.Base(dir)
	if at.Container != "" {
		return nil, fmt.Errorf("process %s (%s) runs in a container"+ignoredKubelet, pid, program)
	}
	file, err := nodeproc.Program(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the program file of process %s (%s): %w"+ignoredKubelet+", and give candor nri CAP_SYS_PTRACE", pid, program, withoutPath(err))
	}
	for _, name := range []string{id.Comm, file} {
		if name != program && !strings.HasPrefix(name, program+"-") { // k3s-server
			return nil, fmt.Errorf("process %s has the command line of %s and is %.40q"+ignoredKubelet, pid, program, name)
		}
	}
	return newKubelet(dir, program, words), nil
}

func newKubelet(dir, program string, words []string) *kubelet {
	k := &kubelet{pid: filepath.Base(dir), program: program, words: words, root: filepath.Join(dir, "root"), dir: kubeletRoot}
	if program == "k3s" {
		k.words = embeddedFlags(words)
	}
	if program == "kubelite" {
		k.dir = microK8sRoot
	}
	k.cwd, _ = os.Readlink(filepath.Join(dir, "cwd")) // without ptrace rights, the process's files are not readable either
	if at := k.flag("root-dir"); at != "" {
		k.dir = k.abs(at)
	}
	return k
}

// kubeletProgram returns the name of the program in a command line that runs a kubelet, or "" for any other command line. k3s
// replaces its arguments by a single string, such as "/usr/local/bin/k3s server".
func kubeletProgram(words []string) string {
	if len(words) == 0 {
		return ""
	}
	file, title, _ := strings.Cut(words[0], " ")
	command := words[1:]
	if title != "" {
		command = strings.Fields(title)
	}
	runs := func(commands ...string) bool { return len(command) > 0 && slices.Contains(commands, command[0]) }
	switch program := filepath.Base(file); program {
	case "kubelet", "kubelite":
		return program
	case "hyperkube":
		if runs("kubelet") {
			return program
		}
	case "k3s":
		if runs("server", "agent") {
			return program
		}
	}
	return ""
}

// embeddedFlags returns the flags that k3s passes to its kubelet: --kubelet-arg=NAME=VALUE.
func embeddedFlags(words []string) (flags []string) {
	for i, word := range words {
		flag, value, whole := strings.Cut(word, "=")
		if word == endOfFlags {
			break
		}
		if flag != "--kubelet-arg" {
			continue
		}
		if !whole && i+1 < len(words) {
			value = words[i+1]
		}
		flags = append(flags, "--"+value)
	}
	return flags
}
