package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/ocibundle"
	"github.com/candor-project/candor/internal/procfs"
)

// A description holds facts about a container from its cgroup, its monitor process and the files of its runtime.
type description struct {
	name    string
	runtime string
	sandbox bool // the container only holds the namespaces of a pod
}

const (
	shortID     = 12      // number of digits of an ID that engines show
	largestFile = 4 << 20 // maximum number of bytes to read from a runtime's file
	maxWatchers = 100     // maximum number of possible monitor processes to inspect for a container
)

// describe returns the description of a container. The monitor process (shim or conmon) is the parent of the container's first
// process, and its command line or working directory leads to the runtime's files. If these files are not readable, or the monitor
// belongs to another user, the name is the beginning of the ID. parents maps the container's processes to their parents.
func (p place) describe(parents map[int]int) description {
	d := description{name: p.id[:min(len(p.id), shortID)], runtime: p.runtime}
	if p.runtime == "candor" {
		d.name = p.id
	}
	var watchers []int
	for _, parent := range parents {
		if _, isInside := parents[parent]; !isInside && parent > 1 {
			watchers = append(watchers, parent)
		}
	}
	slices.Sort(watchers)
	watchers = slices.Compact(watchers)
	for _, pid := range watchers[:min(len(watchers), maxWatchers)] {
		dir := fmt.Sprintf("/proc/%d", pid)
		if !isOwnUsers(dir) {
			continue
		}
		if w := watcherOf(dir, p.id); w != nil {
			w.addTo(&d, dir+"/root")
			break
		}
	}
	return d
}

// isOwnUsers reports whether a process, given its directory in /proc, belongs to candor's user. Other users' processes are not
// trusted: any user can start a program with the name of a monitor, and with a bundle on a file system that never answers.
func isOwnUsers(dir string) bool {
	user, err := procfs.EffectiveUser(dir)
	return err == nil && user == os.Geteuid()
}

// A watcher is a monitor: a process that a runtime runs beside a container for as long as the container exists.
type watcher struct {
	runtime string
	name    string // container name in the command line, or ""
	bundle  string // directory of the container's config.json
}

// watcherOf reads a process, given its directory in /proc. It returns nil if the process is no monitor. id is the container's ID.
func watcherOf(dir, id string) *watcher {
	words, _ := procfs.CommandLine(dir)
	if len(words) == 0 {
		return nil
	}
	// A process in a nested PID namespace is no monitor of this machine. A program in a container could have the name of a monitor,
	// and the path of its bundle would then mean another directory here.
	if is, err := procfs.ReadIdentity(dir); err == nil && is.Namespaces != 1 {
		return nil
	}
	program := filepath.Base(words[0])
	switch {
	case program == "conmon":
		// CRI-O uses conmon too, but addTo prefers the runtime from the cgroup's name.
		return &watcher{runtime: "podman", name: ocibundle.ConmonName(words), bundle: after(words, "-b")}
	case strings.HasPrefix(program, "containerd-shim"):
		w := &watcher{runtime: "containerd"}
		if after(words, "-namespace") == "moby" {
			w.runtime = "docker"
		}
		// The working directory of a shim is the bundle of its first container, which is the sandbox of a pod.
		here, err := os.Readlink(dir + "/cwd")
		if err != nil {
			return w
		}
		if strings.HasPrefix(filepath.Base(here), id) { // the name of Candor's own cgroup is the beginning of the ID
			id = filepath.Base(here)
		}
		w.bundle = filepath.Join(filepath.Dir(here), id)
		return w
	}
	return nil
}

// after returns the word after a flag, or "".
func after(words []string, flag string) string {
	at := slices.Index(words, flag)
	if at < 0 || at+1 == len(words) {
		return ""
	}
	return words[at+1]
}

// addTo adds the facts from a monitor process and the config.json of its bundle to a description. root is the root directory of
// the monitor process: candor can run in a container, which has other directories.
func (w *watcher) addTo(d *description, root string) {
	if d.runtime == "" {
		d.runtime = w.runtime
	}
	if w.name != "" {
		d.name = w.name
	}
	if w.bundle == "" {
		return
	}
	text, err := fileio.ReadInRoot(root, filepath.Join(w.bundle, "config.json"), largestFile)
	if err != nil {
		return
	}
	config, err := ocibundle.Parse(text)
	if err != nil {
		return
	}
	d.sandbox = config.IsSandbox()
	if name := config.Name(root); name != "" {
		d.name = name
	}
}
