package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/candor-project/candor/spec"
)

// A Feature is a use of Candor that version 2 of the state file cannot express. While a container uses a feature, Candor writes
// version 3, which names the features in use. An older candor that does not know a named feature refuses the state, and its
// error names the feature.
type Feature string

const (
	// FeatureHelpers is the accounting of helpers at the level place or charge.
	FeatureHelpers Feature = "helpers"
	// FeatureLiveView is a view with files whose content changes while the container runs: memory or CPU time.
	FeatureLiveView Feature = "live-view"
)

// Features lists the features that this Candor knows.
var Features = []Feature{FeatureHelpers, FeatureLiveView}

// Uses reports whether a container uses a feature, so that the state file must name the feature.
func (g *Grant) Uses(f Feature) bool {
	switch f {
	case FeatureHelpers:
		return g.Helpers != spec.HelpersShow || g.HasHelper || g.Lease.Max != 0 || g.Lease.Frozen
	case FeatureLiveView:
		return g.View.HasMemory() || g.View.HasStat()
	default:
		return false
	}
}

// UsedFeatures returns the features that containers use.
func (s *State) UsedFeatures() (used []Feature) {
	for _, f := range Features {
		if slices.ContainsFunc(s.Grants, func(g *Grant) bool { return g.Uses(f) }) {
			used = append(used, f)
		}
	}
	return used
}

// A fileHead selects the parser of a state file.
type fileHead struct {
	Version  int       `json:"version"`
	Features []Feature `json:"features,omitempty"`
}

// check returns ErrNewer for a state that needs a newer Candor, and another error for a version that never existed.
func (h *fileHead) check() error {
	const maxNamed = 4 // bounds the error
	unknown := slices.DeleteFunc(slices.Clone(h.Features), func(f Feature) bool { return slices.Contains(Features, f) })
	var with strings.Builder
	for _, f := range unknown[:min(len(unknown), maxNamed)] {
		fmt.Fprintf(&with, ", feature %.40q", string(f))
	}
	switch {
	case h.Version < OldestVersion:
		return fmt.Errorf("version %d: must be %d to %d", h.Version, OldestVersion, FeatureVersion)
	case h.Version > FeatureVersion || len(unknown) > 0:
		return fmt.Errorf("version %d%s: %w; this Candor reads versions up to %d with the features %s and %s", h.Version, &with, ErrNewer, FeatureVersion, FeatureHelpers, FeatureLiveView)
	default:
		return nil
	}
}
