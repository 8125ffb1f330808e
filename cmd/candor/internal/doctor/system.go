package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/kube/apiserver"
	"github.com/candor-project/candor/topology"
)

// A System is the machine that the checks read, and the settings of this candor.
type System struct {
	Root     string // directory with the machine's file system; "/" for this machine
	For      Use    // "": all uses
	StateDir string // paths below Root
	Config   string // options of the machine
	NRI      string // configuration of candor nri
	Cgroup   cgroup.Options
	Version  string            // version of this candor
	Cluster  *apiserver.Client // nil: no access to an API server

	uid       int // effective user
	freeSpace func(dir string) (bytes, inodes uint64, err error)
	facts     facts
}

// facts are facts that several checks need. A check reads them at their first use.
type facts struct {
	machine  *topology.Machine
	mounts   []*mountinfo.Info
	runtimes *foundRuntimes
	kubelets *foundKubelets
	versions map[string]printed // by program
}

// A printed is the output of a program with --version.
type printed struct {
	text string
	err  error
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

// timeLimit bounds a program that prints its version. All checks together take less than 2 s.
const timeLimit = 400 * time.Millisecond

func (s *System) isRoot() bool { return s.uid == 0 }

// wants reports whether the checks run for one of some uses.
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

// The results of a check.

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
		process = "1" // this process has the mounts of another root
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

// hasUnit reports whether a service of systemd runs, by its cgroup.
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

// options returns the options of the machine: those in its file, and those of the configuration of candor nri.
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

// programDirs are the usual directories of programs.
var programDirs = []string{"usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"}

// program returns the path of a program in a usual directory, or "".
func (s *System) program(name string) string {
	for _, dir := range programDirs {
		path := s.path(filepath.Join(dir, name))
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// A version is the version of a program or of the kernel. The zero value is an unknown version.
type version struct{ major, minor int }

func (v version) before(major, minor int) bool {
	return v != version{} && (v.major < major || v.major == major && v.minor < minor)
}

var versionForm = regexp.MustCompile(`(?:^|\s)v?((\d{1,4})\.(\d{1,4})[^\s,]*)`)

// parseVersion returns the first version in a text, and its part of the text.
func parseVersion(text string) (v version, part string) {
	match := versionForm.FindStringSubmatch(text)
	if match == nil {
		return v, ""
	}
	v.major, _ = strconv.Atoi(match[2])
	v.minor, _ = strconv.Atoi(match[3])
	return v, match[1]
}

// output returns the first 4 KiB that a program prints. It runs the program only if root or this user owns its file, and no other user
// can write the file.
func (s *System) output(program string, args ...string) (string, error) {
	var stat unix.Stat_t
	if err := unix.Stat(program, &stat); err != nil {
		return "", &fs.PathError{Op: "stat", Path: program, Err: err}
	}
	if int(stat.Uid) != 0 && int(stat.Uid) != s.uid || stat.Mode&0o022 != 0 {
		return "", fmt.Errorf("%s: other users can write this program, so candor does not run it", program)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	var out limitedBuffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Env, cmd.WaitDelay = &out, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, timeLimit/10
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	return out.String(), nil
}

// programVersion returns the version that a program prints with --version.
func (s *System) programVersion(program string) (v version, text string, err error) {
	out, isKnown := s.facts.versions[program]
	if !isKnown {
		out.text, out.err = s.output(program, "--version")
		if s.facts.versions == nil {
			s.facts.versions = map[string]printed{}
		}
		s.facts.versions[program] = out
	}
	if out.err != nil {
		return v, "", out.err
	}
	if v, text = parseVersion(out.text); text == "" {
		return v, "", fmt.Errorf("%s --version prints no version: %.40q", program, out.text)
	}
	return v, text, nil
}

// A limitedBuffer keeps the first bytes that are written to it.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	const limit = 4 << 10
	b.Buffer.Write(p[:min(len(p), max(limit-b.Len(), 0))])
	return len(p), nil
}

// freeSpace returns the free space of the file system that holds a directory.
func freeSpace(dir string) (bytes, inodes uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return st.Bavail * uint64(st.Bsize), st.Ffree, nil
}
