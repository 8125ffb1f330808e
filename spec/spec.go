// Package spec defines the settings of a container besides its CPUs. The settings are the CFS period, the burst, the memory nodes, the
// view, the notification of the program after a resize, and the accounting of its helpers. The view is the set of sources in which the
// program finds its CPU count. Flags, annotations, images and the state file have the same settings. Packages kube and host share the
// settings through this package, so that neither package imports the other.
package spec

import (
	"fmt"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/hybrid"
)

// A View selects the sources in which a container's program finds the number of its own CPUs.
type View string

// Views.
const (
	ViewFull     View = "full"     // the affinity, and files mounted over /sys/devices/system/cpu/online and /proc/cpuinfo
	ViewAffinity View = "affinity" // the affinity only
)

// DefaultView returns the view of a container whose settings do not select a view.
func DefaultView(class hybrid.Class) View {
	if class == hybrid.Sensitive {
		return ViewFull
	}
	return ViewAffinity
}

// ValueOr returns the value of an optional setting, or the fallback if the setting is nil.
func ValueOr[T any](setting *T, fallback T) T {
	if setting == nil {
		return fallback
	}
	return *setting
}

// A Spec holds the settings of a container besides its CPUs.
type Spec struct {
	Period   time.Duration // period of the quota
	Burst    Burst
	Mems     bool // the memory nodes (cpuset.mems) follow the CPUs
	View     View
	OnResize string  // "none", "signal:HUP" or "exec:COMMAND"
	Helpers  Helpers `json:",omitzero"` // absent in the overrides (package engine/oci) of earlier versions
	Command  string  // for display: name of the program without arguments (state.ProgramName), or name of the container in its pod
}

// Check returns an error for a setting that the kernel or Candor does not accept. The error lists the accepted values.
func (s *Spec) Check() error {
	if s.Period < bandwidth.MinPeriod || s.Period > bandwidth.MaxPeriod {
		return fmt.Errorf("period %v: must be %v to %v", s.Period, bandwidth.MinPeriod, bandwidth.MaxPeriod)
	}
	if err := s.Burst.Check(); err != nil {
		return err
	}
	if s.View != ViewFull && s.View != ViewAffinity {
		return fmt.Errorf("view %.40q: must be full or affinity", string(s.View))
	}
	if s.Helpers < HelpersShow || s.Helpers > HelpersCharge {
		return fmt.Errorf("%v: must be show, place or charge", s.Helpers)
	}
	_, _, err := ParseOnResize(s.OnResize)
	return err
}
