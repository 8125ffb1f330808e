package doctor

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/internal/kernelfs"
)

// The checks of this file find other programs that manage CPUs, by a unit, a mount, a socket or a connection to the NRI socket.
// They ignore the names of processes, because every user can choose these names. The checks only warn, because they cannot know
// the configurations of the managers.

func lxcfs(s *System) finding {
	mounts, err := s.mounts()
	if err != nil {
		return s.unreadable(err, Unknown, "mount procfs on /proc")
	}
	for _, m := range mounts {
		if m.FSType == "fuse.lxcfs" {
			return warn("mount LXCFS's files into no container of Candor", "LXCFS is mounted on %s: its files in /proc of a container hide Candor's view", m.Mountpoint)
		}
	}
	return s.unit("lxcfs.service", "mount LXCFS's files into no container of Candor", "its files in /proc of a container hide Candor's view")
}

// unit warns if a service runs.
func (s *System) unit(name, next, effect string) finding {
	if s.hasUnit(name) {
		return warn(next, "%s runs: %s", name, effect)
	}
	return pass("%s does not run", name)
}

// draDriver finds the sockets of dra-driver-cpu, whose driver has the name dra.cpu.
func draDriver(s *System) finding {
	for _, at := range []struct{ dir, pattern string }{{"var/lib/kubelet/plugins_registry", "dra.cpu*.sock"}, {"var/lib/kubelet/plugins/dra.cpu", "*.sock"}} {
		if found := s.match(at.dir, at.pattern); found != "" {
			return warn("use dra-driver-cpu or Candor on a node, and remove the other: kubectl delete its DaemonSet and this socket",
				"dra-driver-cpu has a socket, %s, and writes cpusets too", found)
		}
	}
	if _, err := s.names("var/lib/kubelet/plugins_registry"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.unreadable(err, Unknown, "list /var/lib/kubelet/plugins_registry")
	}
	return pass("no socket of dra-driver-cpu")
}

func koordlet(s *System) finding {
	const socket = "/var/run/koordlet/koordlet.sock"
	if s.exists(socket) {
		return warn("remove Koordinator's koordlet from this node, or its cpuset, CPU burst and CPU suppression plugins", "koordlet has a socket, %s, and writes cpusets and quotas too", socket)
	}
	return s.unit("koordlet.service", "remove Koordinator's koordlet from this node", "it writes cpusets and quotas too")
}

func tuned(s *System) finding {
	return s.unit("tuned.service", "tuned-adm active shows the profile; use no profile with isolated_cores or the cgroup and scheduler plugins' affinities",
		"a profile can move processes and interrupts to CPUs of containers")
}

func irqbalance(s *System) finding {
	const effect = "it can move interrupts to the exclusive CPUs of containers"
	const next = "exclude the CPUs of containers with IRQBALANCE_BANNED_CPULIST, or stop it if interrupts do not matter"
	if s.match("run/irqbalance", "irqbalance*.sock") != "" {
		return warn(next, "irqbalance has a socket: %s", effect)
	}
	return s.unit("irqbalance.service", next, effect)
}

// nriPlugins finds other NRI plugins: files that the runtime starts, and connections to its socket. The kernel shows no names of
// connected plugins.
func nriPlugins(s *System) finding {
	return s.ofConfig(func(r *nri.Runtime) finding {
		const next = "remove plugins that assign CPUs, such as the topology-aware and the balloons policy of nri-plugins; the runtime's log lists the plugins"
		files, err := s.names(r.PluginDir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return s.unreadable(err, Unknown, "list "+r.PluginDir)
		}
		var names []string
		for _, name := range files {
			if info, err := os.Stat(s.path(filepath.Join(r.PluginDir, name))); len(names) < 5 && err == nil && !info.IsDir() {
				names = append(names, strconv.Quote(name))
			}
		}
		if len(names) > 0 {
			return warn(next, "%s starts plugins of %s: %s", r.Name, r.PluginDir, strings.Join(names, ", "))
		}
		connected, err := s.connections(r.Socket)
		if err != nil {
			return s.unreadable(err, Unknown, "list the connections: ss -x src "+r.Socket)
		}
		agents, unclear := nri.Agents(s.Root)
		if unclear != nil {
			return finding{Unknown, unclear.Error(), "run candor doctor as root"}
		}
		if others := connected - len(agents); others > 0 {
			return warn(next+"; a connection can also be candor nri in a pod", "%d connections of plugins other than this node's candor nri at %s", others, r.Socket)
		}
		return pass("%d plugins are connected, none besides candor nri", connected)
	})
}

// connections returns the number of connections to a Unix socket in this network namespace (proc(5), /proc/net/unix).
func (s *System) connections(socket string) (n int, err error) {
	const connected = "03"
	names := []string{socket}
	if rest, isRun := strings.CutPrefix(socket, "/var/run/"); isRun { // /var/run is a link to /run
		names = append(names, "/run/"+rest)
	}
	err = kernelfs.Lines(s.path("proc/net/unix"), 64<<20, func(line []byte) bool {
		fields := bytes.Fields(line)
		if len(fields) == 8 && string(fields[5]) == connected && slices.Contains(names, string(fields[7])) {
			n++
		}
		return true
	})
	return n, err
}
