// Package doctor checks whether Candor works on a machine. A [Check] reads files of the machine and returns a [Row] with its
// finding and the next step. [Run] runs a selection of the checks.
//
// The checks write nothing, start no service and need no state of Candor. Every path is read below the root directory of a [System], so
// that a test can give a directory with the files of another machine. Every read has a bound. To find a version, a check runs a program
// with --version, but only if root or the caller owns the program's file, and no other user can write the file.
package doctor

import (
	"slices"
	"strings"
	"time"
	"unicode"
)

// A Status is the result of a check.
type Status string

// The results, from the best to the worst.
const (
	OK      Status = "ok"
	Unknown Status = "unknown" // the check cannot read a file that it needs
	Warning Status = "warning" // Candor works, with the restriction that the row describes
	Failed  Status = "failed"  // Candor does not work until the next step is done
)

// A Use is a way to use Candor. Each check applies to some uses.
type Use string

// The uses.
const (
	UseRun        Use = "run"        // candor run
	UseDocker     Use = "docker"     // candor-runc under Docker or Podman
	UseNRI        Use = "nri"        // candor nri as a systemd unit
	UseKubernetes Use = "kubernetes" // candor nri on a node of a cluster
)

// Uses returns the names of all uses.
func Uses() []string {
	return []string{string(UseRun), string(UseDocker), string(UseNRI), string(UseKubernetes)}
}

// A Row is the result of a check.
type Row struct {
	ID     string `json:"id"`
	Group  string `json:"group"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Next   string `json:"next,omitempty"` // next step; "" if there is none
}

// A Report is the result of all selected checks.
type Report struct {
	Status Status `json:"status"` // the worst status of the rows
	For    Use    `json:"for,omitempty"`
	Root   bool   `json:"root"` // root ran the checks
	Checks []Row  `json:"checks"`
}

// A Check reads a part of the machine.
type Check struct {
	ID    string
	Group string
	For   []Use // uses to which the check applies
	read  func(*System) finding
}

// A finding is the result of a check's function.
type finding struct {
	status      Status
	found, next string
}

// Groups of checks, in the order of the table.
const (
	kernel   = "kernel"
	cgroups  = "cgroups"
	runtimes = "container runtime"
	kubelets = "kubelet"
	engines  = "engines"
	managers = "other managers"
	candor   = "candor"
)

var (
	all    = []Use{UseRun, UseDocker, UseNRI, UseKubernetes}
	byOCI  = []Use{UseDocker, UseNRI, UseKubernetes} // an OCI runtime creates the containers
	byNRI  = []Use{UseNRI, UseKubernetes}
	docker = []Use{UseDocker}
	kube   = []Use{UseKubernetes}
)

// checks are all checks. docs/doctor.md has a section for each.
var checks = []Check{
	{"kernel-version", kernel, all, kernelVersion},
	{"cpus", kernel, all, machineCPUs},
	{"isolated-cpus", kernel, all, isolatedCPUs},
	{"cpu-burst", kernel, all, cpuBurst},
	{"inotify", kernel, all, inotify},
	{"selinux", kernel, byOCI, seLinux},
	{"apparmor", kernel, kube, appArmor},

	{"cgroup-version", cgroups, all, cgroupVersion},
	{"cgroup-controllers", cgroups, all, cgroupControllers},
	{"cgroup-writable", cgroups, all, cgroupWritable},
	{"cgroup-cpus", cgroups, all, cgroupCPUs},
	{"cgroup-quota", cgroups, all, cgroupQuota},
	{"cgroup-memory", cgroups, all, cgroupMemory},

	{"oci-runtime", runtimes, byOCI, ociRuntime},
	{"runtime-version", runtimes, byNRI, runtimeVersion},
	{"nri-enabled", runtimes, byNRI, nriEnabled},
	{"nri-socket", runtimes, byNRI, nriSocket},
	{"nri-timeout", runtimes, byNRI, nriTimeout},
	{"nri-required-plugins", runtimes, byNRI, nriRequired},

	{"kubelet-cpu-manager", kubelets, byNRI, kubeletPolicy},
	{"kubelet-cgroup-driver", kubelets, kube, kubeletDriver},
	{"kubelet-reserved", kubelets, kube, kubeletReserved},

	{"docker-runtimes", engines, docker, dockerRuntimes},
	{"podman-runtimes", engines, docker, podmanRuntimes},
	{"view-refresh", engines, docker, viewRefresh},

	{"lxcfs", managers, all, lxcfs},
	{"dra-driver-cpu", managers, byNRI, draDriver},
	{"nri-plugins", managers, byNRI, nriPlugins},
	{"koordlet", managers, byNRI, koordlet},
	{"tuned", managers, all, tuned},
	{"irqbalance", managers, all, irqbalance},

	{"host-options", candor, all, hostOptions},
	{"nri-config", candor, byNRI, nriConfig},
	{"state", candor, all, stateReadable},
	{"state-space", candor, all, stateSpace},
	{"agent-version", candor, byNRI, agentVersion},
	{"cluster-versions", candor, kube, clusterVersions},
}

// IDs returns the ids of all checks, in the order of the table.
func IDs() (ids []string) {
	for _, c := range checks {
		ids = append(ids, c.ID)
	}
	return ids
}

// Run runs the checks that apply to s.For, or all checks if s.For is "". If only is not empty, it runs the checks with these ids
// instead.
func Run(s *System, only []string) Report {
	s.facts.deadline = time.Now().Add(runLimit)
	r := Report{Status: OK, For: s.For, Root: s.isRoot(), Checks: []Row{}}
	for _, c := range checks {
		switch {
		case len(only) > 0 && !slices.Contains(only, c.ID):
			continue
		case len(only) == 0 && s.For != "" && !slices.Contains(c.For, s.For):
			continue
		}
		f := c.read(s)
		r.Checks = append(r.Checks, Row{c.ID, c.Group, f.status, clean(f.found), clean(f.next)})
		if rank(f.status) > rank(r.Status) {
			r.Status = f.status
		}
	}
	return r
}

// rank returns the position of a status in the order from the best to the worst.
func rank(s Status) int { return slices.Index([]Status{OK, Unknown, Warning, Failed}, s) }

// Unread returns the ids of the checks that could not read a file.
func (r *Report) Unread() (ids []string) {
	for _, row := range r.Checks {
		if row.Status == Unknown {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// maxText bounds a text of a row, in bytes. Texts contain errors about files, which can contain parts of these files.
const maxText = 600

// clean returns a text as a single line of bounded length, without control characters.
func clean(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
