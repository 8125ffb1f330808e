// Package spec defines the settings of a container besides its CPUs. The settings are the CFS period, the burst, the memory
// nodes, the view, the notification of the program after a resize, and the accounting of its helpers. The view is the set of
// sources in which the program finds its CPU count and its memory. Flags, annotations, images and the state file have the same
// settings. Packages kube and host share the settings through this package, so that neither package imports the other.
package spec

import (
	"fmt"
	"slices"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/hybrid"
)

// A View selects the sources in which a container's program finds its own CPUs and its own memory.
type View string

// Views.
const (
	ViewAffinity View = "affinity"  // the affinity only
	ViewCPU      View = "cpu"       // also files mounted over /sys/devices/system/cpu/online and /proc/cpuinfo
	ViewFull     View = "full"      // also files mounted over /proc/meminfo and /proc/swaps
	ViewFullStat View = "full+stat" // also a file mounted over /proc/stat

	// ViewCPUStat is the view that a container without a memory limit has with ViewFullStat.
	ViewCPUStat View = "cpu+stat"
)

// ViewWords lists the views that a setting can select. ViewCPUStat is not among them, because it depends on the memory limit.
var ViewWords = []string{string(ViewAffinity), string(ViewCPU), string(ViewFull), string(ViewFullStat)}

// ParseView parses a view that a setting selects.
func ParseView(text string) (View, error) {
	if !slices.Contains(ViewWords, text) {
		return "", fmt.Errorf("view %.60q: must be affinity, cpu, full or full+stat", text)
	}
	return View(text), nil
}

// HasFiles reports whether the view has files with CPUs.
func (v View) HasFiles() bool { return v != ViewAffinity }

// HasMemory reports whether the view has files with the container's memory.
func (v View) HasMemory() bool { return v == ViewFull || v == ViewFullStat }

// HasStat reports whether the view has a file with the container's CPU time.
func (v View) HasStat() bool { return v == ViewFullStat || v == ViewCPUStat }

// WithoutMemory returns the view without the files with the container's memory.
func (v View) WithoutMemory() View {
	switch v {
	case ViewFull:
		return ViewCPU
	case ViewFullStat:
		return ViewCPUStat
	default:
		return v
	}
}

// WithoutStat returns the view without the file with the container's CPU time.
func (v View) WithoutStat() View {
	switch v {
	case ViewFullStat:
		return ViewFull
	case ViewCPUStat:
		return ViewCPU
	default:
		return v
	}
}

// Avoid returns the view if it is not forbidden. Otherwise, it returns the permitted view with the next fewer files, or, if there
// is none, with the next more files. If all views are forbidden, it returns the view.
func (v View) Avoid(forbidden []View) View {
	at := slices.Index(ViewWords, string(v))
	for _, word := range slices.Concat(reversed(ViewWords[:at+1]), ViewWords[at+1:]) {
		if !slices.Contains(forbidden, View(word)) {
			return View(word)
		}
	}
	return v
}

func reversed(words []string) []string {
	words = slices.Clone(words)
	slices.Reverse(words)
	return words
}

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
	if _, err := ParseView(string(s.View)); err != nil && s.View != ViewCPUStat {
		return err
	}
	if s.Helpers < HelpersShow || s.Helpers > HelpersCharge {
		return fmt.Errorf("%v: must be show, place or charge", s.Helpers)
	}
	_, _, err := ParseOnResize(s.OnResize)
	return err
}
