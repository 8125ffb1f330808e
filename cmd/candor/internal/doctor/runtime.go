package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/candor-project/candor/engine/nri"
)

// A foundRuntimes is the result of the search for container runtimes.
type foundRuntimes struct {
	all     []nri.Runtime
	unclear error // names processes whose program cannot be read
}

// runtimes returns the running container runtimes or, if no runtime runs, the installed runtimes.
func (s *System) runtimes() *foundRuntimes {
	if s.facts.runtimes == nil {
		s.facts.runtimes = new(foundRuntimes)
		s.facts.runtimes.all, s.facts.runtimes.unclear = nri.ReadRuntimes(s.Root)
	}
	return s.facts.runtimes
}

// usedRuntimes returns the runtimes to check: the runtimes that the kubelets use. For the use nri, and on a machine without a kubelet, it
// returns all runtimes. doubt is the reason if the runtime of a kubelet is not known or was not found; otherwise it is "".
func (s *System) usedRuntimes() (used []*nri.Runtime, doubt string) {
	found := s.runtimes().all
	kubelets := s.kubelets().all
	if s.For == UseNRI || len(kubelets) == 0 {
		for i := range found {
			used = append(used, &found[i])
		}
		return used, ""
	}
	for i := range kubelets {
		r, unknown := s.runtimeOf(&kubelets[i])
		doubt = cmp.Or(doubt, unknown)
		if r != nil && !slices.Contains(used, r) {
			used = append(used, r)
		}
	}
	return used, doubt
}

// runtimeOf returns the runtime that a kubelet uses. If the runtime is not known, doubt is the reason.
func (s *System) runtimeOf(k *nri.KubeletSettings) (r *nri.Runtime, doubt string) {
	found := s.runtimes().all
	for i := range found {
		if found[i].Endpoint == k.Endpoint || k.Endpoint == "" && len(found) == 1 {
			return &found[i], ""
		}
	}
	if k.Endpoint != "" {
		return nil, fmt.Sprintf("%s uses the runtime at %s, and no containerd or CRI-O with this socket was found", kubeletName(k), k.Endpoint)
	}
	return nil, kubeletName(k) + " names no containerRuntimeEndpoint, and this machine has several runtimes"
}

// endpointRemedy is the next step if the runtime of a kubelet is not known.
const endpointRemedy = "set containerRuntimeEndpoint in the kubelet's configuration to the socket of its runtime"

// eachRuntime runs a check for every used runtime, and returns the worst finding. On a machine without a runtime, the check fails
// if System.For is a use that needs a runtime. If For is "" (all uses), a failed check is only a warning on a machine that does
// not seem to be meant for candor nri (usesNRI).
func (s *System) eachRuntime(check func(*nri.Runtime) finding) (worst finding) {
	found := s.runtimes()
	if len(found.all) == 0 {
		switch {
		case found.unclear != nil:
			return finding{Unknown, found.unclear.Error(), "run candor doctor as root"}
		case s.wants(byNRI...):
			return fail("install and start containerd 2 or CRI-O", "no containerd and no CRI-O runs or is installed")
		}
		return pass("no containerd and no CRI-O")
	}
	used, doubt := s.usedRuntimes()
	if doubt != "" {
		return finding{Unknown, doubt, endpointRemedy}
	}
	defer func() {
		if s.For == "" && worst.status == Failed && !s.usesNRI() {
			worst.status = Warning
		}
	}()
	for i, r := range used {
		f := check(r)
		switch {
		case i == 0 || rank(f.status) > rank(worst.status):
			worst = f
		case f.status == worst.status:
			worst.found += "; " + f.found
		}
	}
	return worst
}

// usesNRI reports whether this machine is likely meant for candor nri: it has a kubelet, or candor nri itself.
func (s *System) usesNRI() bool {
	agents, unclear := nri.Agents(s.Root)
	return len(s.kubelets().all) > 0 || s.exists(s.NRI) || len(agents) > 0 || unclear != nil
}

// nameOf returns the name of a runtime with its configuration file.
func nameOf(r *nri.Runtime) string { return fmt.Sprintf("%s (%s)", r.Name, r.File) }

// ofConfig is like eachRuntime, for a check that needs the configuration of a runtime. The check fails if the configuration cannot be read.
func (s *System) ofConfig(check func(*nri.Runtime) finding) finding {
	return s.eachRuntime(func(r *nri.Runtime) finding {
		if r.Err != nil {
			return s.unreadable(r.Err, Failed, "correct the configuration of "+r.Name)
		}
		return check(r)
	})
}

// ociRuntime finds runc or crun, which mount the files of the view over /proc/cpuinfo and /sys.
func ociRuntime(s *System) finding {
	for _, name := range []string{"runc", "crun"} {
		path := s.program(name)
		if path == "" {
			continue
		}
		v, text, err := s.programVersion(path)
		switch {
		case err != nil:
			return s.unreadable(err, Unknown, "run "+name+" --version")
		case name == "runc" && v.Before(1, 1):
			return warn("install runc 1.1 or newer", "runc %s: Candor's mounts over /proc/cpuinfo are tested with runc 1.1 and newer", text)
		}
		return pass("%s %s", name, text)
	}
	if s.wants(UseDocker) {
		return fail("install runc or crun in /usr/bin, or set CANDOR_RUNTIME to the path of a runtime", "no runc and no crun")
	}
	return pass("no runc and no crun in the usual directories")
}

// runtimeVersion finds runtimes without NRI 1.0: containerd before 1.7, CRI-O before 1.26.
func runtimeVersion(s *System) finding {
	return s.eachRuntime(func(r *nri.Runtime) finding {
		release, text, err := s.release(r)
		switch {
		case err != nil:
			return s.unreadable(err, Unknown, "run "+r.Name+" --version")
		case !release.HasNRI() && r.Name == nri.Containerd:
			return fail("install containerd 2", "containerd %s has no NRI", text)
		case !release.HasNRI():
			return fail("install CRI-O 1.34 or newer", "CRI-O %s has no NRI", text)
		}
		return pass("%s %s", r.Name, text)
	})
}

// nriRemedy returns the change of the configuration that enables NRI.
func nriRemedy(r *nri.Runtime) string {
	off := cmp.Or(r.EnabledFile, r.File) // a file with disable = true decides
	switch {
	case r.Name == nri.CRIO:
		return "set enable_nri = true in [crio.nri] of " + r.File + ", and restart CRI-O"
	case r.IsListedOff:
		return "remove NRI from disabled_plugins of " + off + ", and restart containerd"
	case r.HasShortNames && off == r.File:
		return "set disable = false in [plugins.nri] of " + off + ", and restart containerd"
	default:
		return "set disable = false in [plugins.'io.containerd.nri.v1.nri'] of " + off + ", and restart containerd"
	}
}

func nriEnabled(s *System) finding {
	return s.ofConfig(func(r *nri.Runtime) finding {
		release, text, err := s.release(r)
		isOn := r.Enabled != nil && *r.Enabled
		switch {
		case r.NoCRI:
			return fail("remove the CRI plugin from disabled_plugins of "+r.NoCRIFile+", and restart containerd",
				"%s: the CRI plugin is disabled, and NRI serves only the containers of this plugin", nameOf(r))
		case r.NoConnections:
			return fail("remove disable_connections = true (CRI-O: nri_disable_connections) from "+r.File+", and restart the runtime",
				"%s accepts no connections of NRI plugins", nameOf(r))
		case r.Changed != "":
			return warn("restart "+r.Name, "%s has changed since %s started, so the settings in effect are not known", r.Changed, r.Name)
		case isOn && r.IsMisnamed && err == nil && !release.HasNRIOn():
			return fail(nriRemedy(r), "%s: %s %s ignores the section of NRI, because files of version 1 have another name for it", nameOf(r), r.Name, text)
		case isOn:
			return pass("%s: on", nameOf(r))
		case r.Enabled != nil:
			return fail(nriRemedy(r), "%s: NRI is off", nameOf(r))
		// The default depends on the version: containerd 2 has NRI on, containerd 1.7 off.
		case !release.HasNRIOn():
			return fail(nriRemedy(r), "%s: NRI is off by default in %s %s", nameOf(r), r.Name, text)
		case err != nil:
			return s.unreadable(err, Unknown, "see the check runtime-version")
		}
		return pass("%s: default of %s", nameOf(r), text)
	})
}

func nriSocket(s *System) finding {
	return s.ofConfig(func(r *nri.Runtime) finding {
		remedy := fmt.Sprintf("start %s with NRI on; if it has another socket, use candor nri --socket PATH", r.Name)
		info, err := os.Stat(s.path(r.Socket))
		switch {
		case errors.Is(err, fs.ErrNotExist) && r.PID == 0:
			return fail(remedy, "%s does not run", r.Name)
		case errors.Is(err, fs.ErrNotExist):
			return fail(remedy, "%s is missing", r.Socket)
		case err != nil:
			return s.unreadable(err, Failed, remedy)
		case info.Mode().Type() != fs.ModeSocket:
			return fail(remedy, "%s is no socket", r.Socket)
		case r.Socket != nri.DefaultSocket:
			return warn("use candor nri --socket "+r.Socket+" (chart: nriSocket)", "%s: not the default path %s", r.Socket, nri.DefaultSocket)
		}
		return pass("%s", r.Socket)
	})
}

// leastTimeout is the shortest request timeout of a runtime under which candor nri can answer. The plugin waits up to
// nri.Patience for the state's lock, and then plans.
const leastTimeout = 2 * time.Second

func nriTimeout(s *System) finding {
	return s.ofConfig(func(r *nri.Runtime) finding {
		switch {
		case r.RequestTimeout == 0:
			return pass("%s: the default, %v", nameOf(r), leastTimeout)
		case r.RequestTimeout < leastTimeout:
			return warn("set plugin_request_timeout (CRI-O: nri_plugin_request_timeout) to 2s or more",
				"%s: %v, but candor nri waits up to %v for the state's lock, and then plans", nameOf(r), r.RequestTimeout, nri.Patience)
		}
		return pass("%s: %v", nameOf(r), r.RequestTimeout)
	})
}

// nriRequired finds a containerd that starts containers even while the plugin is not connected.
func nriRequired(s *System) finding {
	return s.ofConfig(func(r *nri.Runtime) finding {
		release, text, _ := s.release(r) // an unknown version can have the setting
		isRequired, _ := r.RequiresPlugin()
		switch {
		case r.Name == nri.CRIO:
			return pass("CRI-O has no such setting: a container that starts while the plugin is away gets its CPUs later")
		case !release.HasRequired():
			return pass("containerd %s has no such setting: a container that starts while the plugin is away gets its CPUs later", text)
		case isRequired:
			return pass("%s: candor is required", nameOf(r))
		}
		return warn("add default_validator with required_plugins = [\"candor\"] to refuse such containers instead (containerd 2.2 and newer)",
			"%s: a container that starts while the plugin is away runs on all CPUs until the plugin is back", nameOf(r))
	})
}
