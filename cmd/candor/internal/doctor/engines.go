package doctor

import (
	"os"
	"strings"

	"github.com/candor-project/candor/cmd/candor/internal/setup"
	"github.com/candor-project/candor/cmd/candor/internal/setup/engine"
	"github.com/candor-project/candor/engine/nri"
)

// hasDocker and hasPodman report whether an engine is installed.
func (s *System) hasDocker() bool {
	return s.program("dockerd") != "" || s.exists("run/docker.sock") || s.exists(engine.Docker.File)
}

func (s *System) hasPodman() bool { return s.program("podman") != "" }

func dockerRuntimes(s *System) finding {
	return s.engineRuntimes(engine.Docker, "Docker", s.hasDocker(), s.hasPodman())
}

func podmanRuntimes(s *System) finding {
	return s.engineRuntimes(engine.Podman, "Podman", s.hasPodman(), s.hasDocker())
}

// engineRuntimes checks that an engine has Candor's runtimes, and that their programs exist. hasOther is true if another engine is
// installed, so that this engine is not needed.
func (s *System) engineRuntimes(e engine.Engine, name string, isInstalled, hasOther bool) finding {
	if !isInstalled {
		if s.wants(UseDocker) && !hasOther {
			return fail("install Docker or Podman", "neither Docker nor Podman is installed")
		}
		return pass("%s is not installed", name)
	}
	found, err := engine.FindRuntimes(e, s.path(e.File))
	if err != nil {
		return s.unreadable(err, Failed, "correct "+e.File)
	}
	next := "candor setup " + e.Name
	if e.Name == engine.Docker.Name {
		next += " && systemctl reload docker"
	}
	if len(found) == 0 {
		if s.wants(UseDocker) && !hasOther {
			return fail(next, "%s has no runtime candor", e.File)
		}
		return warn(next, "%s has no runtime candor", e.File)
	}
	var names []string
	for _, r := range found {
		info, err := os.Stat(s.path(r.Path))
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return fail("install candor there (make install), or repeat "+next, "the program of the runtime %s, %s, is missing or cannot be executed", r.Name, r.Path)
		}
		names = append(names, r.Name)
	}
	return pass("%s: %s", e.File, strings.Join(names, ", "))
}

// viewRefresh checks whether a process refreshes the memory in the views of Docker's and Podman's containers.
func viewRefresh(s *System) finding {
	if !s.hasCandorRuntime() {
		return pass("neither Docker nor Podman has a runtime of Candor")
	}
	if s.hasUnit(setup.ViewUnit) {
		return pass("%s runs", setup.ViewUnit)
	}
	agents, unclear := nri.Agents(s.Root)
	switch {
	case unclear != nil:
		return finding{Unknown, unclear.Error(), "run candor doctor as root"}
	case len(agents) > 0:
		return pass("candor nri refreshes the views")
	}
	return warn("candor view refresh --unit >/etc/systemd/system/"+setup.ViewUnit+" && systemctl enable --now "+setup.ViewUnit,
		"neither %s nor candor nri runs: in containers of Docker and Podman, MemAvailable is that of the start", setup.ViewUnit)
}

// hasCandorRuntime reports whether Docker or Podman has a runtime of Candor.
func (s *System) hasCandorRuntime() bool {
	for _, e := range []engine.Engine{engine.Docker, engine.Podman} {
		if found, err := engine.FindRuntimes(e, s.path(e.File)); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}
