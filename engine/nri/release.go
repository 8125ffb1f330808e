package nri

import "github.com/candor-project/candor/internal/program"

// A Release is a release of a container runtime. An unknown version counts as the newest.
type Release struct {
	Name string // Containerd or CRIO
	program.Version
}

// The first releases with a feature.
var (
	nriSince      = map[string]program.Version{Containerd: {Major: 1, Minor: 7}, CRIO: {Major: 1, Minor: 26}}
	nriOnSince    = program.Version{Major: 2, Minor: 0} // of containerd
	requiredSince = program.Version{Major: 2, Minor: 2} // of containerd
)

// HasNRI reports whether the release has NRI 1.0: containerd since 1.7, CRI-O since 1.26.
func (r Release) HasNRI() bool { return r.isAtLeast(nriSince[r.Name]) }

// HasNRIOn reports whether the release has NRI on by default. For CRI-O, it is true for every release with NRI: CRI-O's
// configuration files contain the setting enable_nri, which overrides the default.
func (r Release) HasNRIOn() bool {
	return r.HasNRI() && (r.Name == CRIO || r.isAtLeast(nriOnSince))
}

// HasRequired reports whether the release has the setting required_plugins, with which it refuses containers while a plugin is away:
// containerd since 2.2.
func (r Release) HasRequired() bool { return r.Name == Containerd && r.isAtLeast(requiredSince) }

func (r Release) isAtLeast(v program.Version) bool { return !r.Before(v.Major, v.Minor) }
