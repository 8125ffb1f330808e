package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/cputext"
	"github.com/candor-project/candor/internal/procfs"
)

func hostOptions(s *System) finding {
	options, err := host.LoadOptions(s.path(s.Config))
	if err != nil {
		return s.unreadable(err, Failed, "correct "+s.Config+", or remove it")
	}
	if !s.exists(s.Config) {
		return pass("%s does not exist: the defaults apply", s.Config)
	}
	m, err := s.topology()
	if err != nil {
		return finding{Unknown, err.Error(), "see the check cpus"}
	}
	if err := host.CheckReserved(options.Reserved, m); err != nil {
		return fail("correct reserved in "+s.Config, "%s: %v", s.Config, err)
	}
	if m.Online.SubsetOf(&options.Reserved) {
		return fail("reserve fewer CPUs in "+s.Config, "%s: reserved %s: no CPU remains for containers", s.Config, options.Reserved)
	}
	return pass("%s: reserved CPUs %s", s.Config, orNone(options.Reserved.String()))
}

func nriConfig(s *System) finding {
	if !s.exists(s.NRI) {
		return pass("%s does not exist; candor nri needs a configuration only for --config", s.NRI)
	}
	if _, err := nri.LoadConfig(s.path(s.NRI)); err != nil {
		return s.unreadable(err, Failed, "correct the file until candor config check "+s.NRI+" accepts it")
	}
	return pass("%s is valid", s.NRI)
}

func stateReadable(s *System) finding {
	var stat unix.Stat_t
	dir := s.path(s.StateDir)
	err := unix.Lstat(dir, &stat)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return pass("%s does not exist yet", s.StateDir)
	case err != nil:
		return s.unreadable(&fs.PathError{Op: "stat", Path: s.StateDir, Err: err}, Failed, "remove "+s.StateDir)
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fail("remove it, or choose another directory with --state-dir", "%s is no directory", s.StateDir)
	case int(stat.Uid) != 0 && int(stat.Uid) != s.uid || stat.Mode&0o022 != 0:
		return fail("chown it to its user, and remove the rights of others to write: chmod go-w "+s.StateDir,
			"%s belongs to user %d with mode %o: others can write it", s.StateDir, stat.Uid, stat.Mode&0o7777)
	}
	store := state.NewStore(dir)
	saved, err := store.Load()
	switch {
	case errors.Is(err, state.ErrNewer):
		return fail("install the newer candor, or end all containers and remove the file", "%v", err)
	case errors.As(err, new(*state.BrokenError)):
		return warn("none: the next operation moves the file away and rebuilds the state from the running containers", "%v", err)
	case err != nil:
		return s.unreadable(err, Failed, "correct the file, or end all containers and remove it")
	case isGivingBack(store):
		return fail("run candor uninstall to complete this, or start candor nri to cancel it",
			"%s: the containers are being given back to their engines: Candor starts and changes no container", s.StateDir)
	case store.IsPlan():
		return warn("use another --state-dir for containers that run", "%s holds the plans of candor nri --observe", s.StateDir)
	}
	return pass("%s: %s%s", s.StateDir, cputext.Count(len(saved.Grants), "container"), features(&saved.State))
}

// features returns a text about the features in use that earlier versions of candor cannot read from the state; "" if there are
// none.
func features(s *state.State) (text string) {
	for _, f := range s.UsedFeatures() {
		var users []string
		for _, g := range s.Grants {
			if g.Uses(f) {
				users = append(users, cmp.Or(g.Engine.DisplayName().String(), g.ID))
			}
		}
		text += fmt.Sprintf("; the feature %s is in use (containers: %d, such as %s): releases without this feature refuse the state", f, len(users), users[0])
	}
	return text
}

func isGivingBack(store state.Store) bool {
	boot, err := procfs.BootID()
	return err == nil && store.IsGivingBack(boot)
}

// The least free space for the state directory. A state of 1,000 containers takes 0.4 MB, and the file exists twice while it is replaced.
// The files of a view take about 40 KB for 32 CPUs.
const (
	minSpace  = 1 << 20  // bytes; with less space, candor cannot save the state
	goodSpace = 16 << 20 // bytes
	minInodes = 100
)

func stateSpace(s *System) finding {
	dir := s.StateDir
	for !s.exists(dir) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	space, inodes, err := s.freeSpace(s.path(dir))
	const next = "remove files of other programs there, or enlarge the file system: mount -o remount,size=…"
	found := fmt.Sprintf("%s has %.1f MiB and %d inodes free", dir, float64(space)/(1<<20), inodes)
	switch {
	case err != nil:
		return s.unreadable(err, Unknown, "df "+dir)
	case space < minSpace, inodes < minInodes && inodes != 0: // some file systems count no inodes
		return fail(next, "%s", found)
	case space < goodSpace:
		return warn(next, "%s", found)
	}
	return pass("%s", found)
}

// maxAgents bounds the processes of candor nri that a check asks for their version. A machine has one such process, and a second for
// --observe.
const maxAgents = 4

// agentVersion compares the version of a running candor nri with this candor.
func agentVersion(s *System) finding {
	pids, unclear := nri.Agents(s.Root)
	if unclear != nil {
		return finding{Unknown, unclear.Error(), "run candor doctor as root"}
	}
	if len(pids) == 0 {
		return pass("no candor nri of root runs outside of a pod")
	}
	for _, pid := range pids[:min(len(pids), maxAgents)] {
		out, err := s.output(s.path(fmt.Sprintf("proc/%d/exe", pid)), "version")
		if err != nil {
			return s.unreadable(err, Unknown, "run candor doctor as root")
		}
		words := strings.Fields(out) // candor VERSION (…)
		if len(words) < 2 || words[0] != "candor" {
			return finding{Unknown, fmt.Sprintf("process %d prints no version: %.60q", pid, out), "systemctl restart candor-nri"}
		}
		if words[1] != s.Version {
			return warn("systemctl restart candor-nri; containers keep their CPUs", "candor nri (process %d) is version %s, this candor is %s", pid, words[1], s.Version)
		}
	}
	return pass("candor nri is version %s too", s.Version)
}
