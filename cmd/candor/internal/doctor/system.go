package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/internal/program"
	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/topology"
)

// A System is the machine that the checks read, and the settings of this candor.
type System struct {
	Root     string // directory with the machine's file system; "/" for this machine
	For      Use    // "": all uses
	StateDir string // state directory; like Config and NRI, a path below Root
	Config   string // file with the options of the machine
	NRI      string // configuration file of candor nri
	Cgroup   cgroup.Options
	Version  string // version of this candor
	// Connect returns a client of the API server. Connect is nil if there is no kubeconfig.
	Connect func() (*apiserver.Client, error)

	uid       int // effective user
	freeSpace func(dir string) (bytes, inodes uint64, err error)
	facts     facts
}

// facts caches facts that several checks need. The first check that needs a fact reads it.
type facts struct {
	machine  *topology.Machine
	mounts   []*mountinfo.Info
	runtimes *foundRuntimes
	kubelets *foundKubelets
	versions map[string]printed // by program
	deadline time.Time          // for all checks together
}

// A printed is the version that a program prints with --version.
type printed struct {
	version program.Version
	text    string
	err     error
}

// New returns the system with a root directory, "/" for this machine.
func New(root string) *System {
	return &System{
		Root: root, StateDir: host.DefaultStateDir(), Config: host.DefaultConfig, NRI: DefaultNRIConfig,
		uid: os.Geteuid(), freeSpace: freeSpace,
	}
}

// DefaultNRIConfig is the configuration of candor nri that the systemd unit names.
const DefaultNRIConfig = "/etc/candor/nri.yaml"

// Bounds of the checks.
const (
	programLimit = 400 * time.Millisecond  // for a program that prints its version
	runLimit     = 1500 * time.Millisecond // for the programs and requests of all checks
	maxNames     = 1000                    // maximum number of names to read from a directory
)

func (s *System) isRoot() bool { return s.uid == 0 }

// wants reports whether s.For is one of the given uses.
func (s *System) wants(uses ...Use) bool { return slices.Contains(uses, s.For) }

func (s *System) path(name string) string { return filepath.Join(s.Root, name) }

// exists reports whether a file exists.
func (s *System) exists(name string) bool {
	_, err := os.Lstat(s.path(name))
	return err == nil
}

// kernelText returns the text of a file of procfs or sysfs, without blanks at its ends.
func (s *System) kernelText(name string) (string, error) {
	text, err := kernelfs.Read(s.path(name))
	return string(bytes.TrimSpace(text)), err
}

// pass, warn and fail return the result of a check.

func pass(format string, args ...any) finding {
	return finding{status: OK, found: fmt.Sprintf(format, args...)}
}

func warn(next, format string, args ...any) finding {
	return finding{Warning, fmt.Sprintf(format, args...), next}
}

func fail(next, format string, args ...any) finding {
	return finding{Failed, fmt.Sprintf(format, args...), next}
}

// unreadable returns the result for a file that cannot be read: Unknown if root could read it, else the given status.
func (s *System) unreadable(err error, status Status, next string) finding {
	if errors.Is(err, fs.ErrPermission) && !s.isRoot() {
		return finding{Unknown, err.Error(), "run candor doctor as root"}
	}
	return finding{status, err.Error(), next}
}

// mounts returns the mounts of cgroups and of LXCFS.
func (s *System) mounts() ([]*mountinfo.Info, error) {
	if s.facts.mounts != nil {
		return s.facts.mounts, nil
	}
	process := "self"
	if s.Root != "/" {
		process = "1" // below another root, process 1 has the mounts of that machine
	}
	found := []*mountinfo.Info{}
	err := procfs.EachMount(s.path("proc/"+process+"/mountinfo"), procfs.MaxHostMounts, []string{" - cgroup", " - fuse.lxcfs"},
		func(m *mountinfo.Info) { found = append(found, m) })
	if err == nil {
		s.facts.mounts = found
	}
	return found, err
}

// cgroupMounts returns the mounted cgroup hierarchies.
func (s *System) cgroupMounts() (found []*mountinfo.Info, err error) {
	mounts, err := s.mounts()
	for _, m := range mounts {
		if m.FSType == "cgroup" || m.FSType == "cgroup2" {
			found = append(found, m)
		}
	}
	return found, err
}

// hasUnit reports whether a systemd service runs, which means that its cgroup exists.
func (s *System) hasUnit(name string) bool {
	mounts, _ := s.cgroupMounts()
	for _, m := range mounts {
		if s.exists(filepath.Join(m.Mountpoint, "system.slice", name)) {
			return true
		}
	}
	return false
}

// topology returns the machine's topology.
func (s *System) topology() (m *topology.Machine, err error) {
	if s.facts.machine != nil {
		return s.facts.machine, nil
	}
	if s.Root == "/" {
		m, err = host.ReadMachine()
	} else {
		m, err = topology.Read(os.DirFS(s.Root))
	}
	if err == nil {
		s.facts.machine = m
	}
	return m, err
}

// options returns the options in the options file of the machine. If the configuration file of candor nri exists, its settings
// override these options.
func (s *System) options() (host.NodeOptions, error) {
	options, err := host.LoadOptions(s.path(s.Config))
	if err == nil && s.exists(s.NRI) {
		var config *nri.Config
		if config, err = nri.LoadConfig(s.path(s.NRI)); err == nil {
			options = config.Over(options)
		}
	}
	return options, err
}

// program returns the path of a program in a usual directory, or "".
func (s *System) program(name string) string { return program.Find(s.Root, name) }

// context returns a context for a step of a check with a time limit. The deadline of all checks bounds it too.
func (s *System) context(limit time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(limit)
	if all := s.facts.deadline; !all.IsZero() && all.Before(end) {
		end = all
	}
	return context.WithDeadline(context.Background(), end)
}

// output returns the first 4 KiB that a program prints. Like program.Output, it runs the program only if root or the caller owns the
// program's file, and no other user can write the file.
func (s *System) output(file string, args ...string) (string, error) {
	ctx, cancel := s.context(programLimit)
	defer cancel()
	return program.Output(ctx, file, args...)
}

// programVersion returns the version that a program prints with --version.
func (s *System) programVersion(file string) (program.Version, string, error) {
	out, isKnown := s.facts.versions[file]
	if !isKnown {
		ctx, cancel := s.context(programLimit)
		defer cancel()
		out.version, out.text, out.err = program.ReadVersion(ctx, file)
		if s.facts.versions == nil {
			s.facts.versions = map[string]printed{}
		}
		s.facts.versions[file] = out
	}
	return out.version, out.text, out.err
}

// release returns the release of a runtime, and its version as text.
func (s *System) release(r *nri.Runtime) (nri.Release, string, error) {
	v, text, err := s.programVersion(r.Program)
	return nri.Release{Name: r.Name, Version: v}, text, err
}

// names returns the sorted names of the files and directories in a directory, at most maxNames of them.
func (s *System) names(dir string) ([]string, error) {
	f, err := os.Open(s.path(dir))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxNames)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.Sort(names)
	return names, err
}

// match returns the first file in a directory whose name matches a pattern of filepath.Match, or "".
func (s *System) match(dir, pattern string) string {
	names, _ := s.names(dir)
	for _, name := range names {
		if ok, _ := filepath.Match(pattern, name); ok {
			return filepath.Join("/", dir, name)
		}
	}
	return ""
}

// freeSpace returns the free space of the file system that holds a directory.
func freeSpace(dir string) (bytes, inodes uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return st.Bavail * uint64(st.Bsize), st.Ffree, nil
}
