package kube

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// Settings are the settings of a container from a single source or merged from several sources. Unset settings are nil.
type Settings struct {
	Class    *hybrid.Class
	Policy   *hybrid.Policy
	View     *spec.View
	Topology *hybrid.TopologyPolicy
	Period   *time.Duration
	Movable  *bool
	OnResize *string
	Env      *bool // set environment variables with the CPU count
	Preserve *bool
	Burst    *spec.Burst
	Helpers  *spec.Helpers
}

// setters maps the name of a setting to the function that parses its value.
var setters = map[string]func(s *Settings, value string) error{
	"class":     func(s *Settings, v string) error { return setText(&s.Class, v) },
	"policy":    func(s *Settings, v string) error { return setText(&s.Policy, v) },
	"topology":  func(s *Settings, v string) error { return setText(&s.Topology, v) },
	"view":      setView,
	"period":    setPeriod,
	"movable":   func(s *Settings, v string) error { return setBool(&s.Movable, v) },
	"preserve":  func(s *Settings, v string) error { return setBool(&s.Preserve, v) },
	"on-resize": setOnResize,
	"burst":     func(s *Settings, v string) error { return setText(&s.Burst, v) },
	"helpers":   func(s *Settings, v string) error { return setText(&s.Helpers, v) },
	"env":       func(s *Settings, v string) error { return setBool(&s.Env, v) },
}

// Names returns the names of all settings in alphabetical order.
func Names() []string {
	names := make([]string, 0, len(setters))
	for name := range setters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Set parses the value of a setting from an annotation or a configuration file, and stores the value in s. The error lists the accepted
// values. It does not name the annotation or file, because the caller knows which was read.
func (s *Settings) Set(name, value string) error {
	set, known := setters[name]
	if !known {
		return fmt.Errorf("unknown setting %q: must be one of %s", shorten(name), strings.Join(Names(), ", "))
	}
	return set(s, value)
}

// Over returns a copy of s in which each unset setting has the value of another source, which has a lower precedence than s.
func (s Settings) Over(below Settings) Settings {
	return Settings{
		Class:    either(s.Class, below.Class),
		Policy:   either(s.Policy, below.Policy),
		View:     either(s.View, below.View),
		Topology: either(s.Topology, below.Topology),
		Period:   either(s.Period, below.Period),
		Movable:  either(s.Movable, below.Movable),
		OnResize: either(s.OnResize, below.OnResize),
		Env:      either(s.Env, below.Env),
		Preserve: either(s.Preserve, below.Preserve),
		Burst:    either(s.Burst, below.Burst),
		Helpers:  either(s.Helpers, below.Helpers),
	}
}

func either[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}

// setText parses a value with UnmarshalText of its type, whose error lists the accepted words.
func setText[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](to **T, value string) error {
	v := new(T)
	if err := P(v).UnmarshalText([]byte(value)); err != nil {
		return err
	}
	*to = v
	return nil
}

func setBool(to **bool, value string) error {
	if value != "true" && value != "false" {
		return fmt.Errorf("%q: must be true or false", shorten(value))
	}
	yes := value == "true"
	*to = &yes
	return nil
}

func setView(s *Settings, value string) error {
	v, err := spec.ParseView(value)
	if err != nil {
		return err
	}
	s.View = &v
	return nil
}

func setPeriod(s *Settings, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < bandwidth.MinPeriod || d > bandwidth.MaxPeriod || d%time.Microsecond != 0 {
		return fmt.Errorf("period %q: must be %v to %v in whole microseconds, such as 20ms", shorten(value), bandwidth.MinPeriod, bandwidth.MaxPeriod)
	}
	s.Period = &d
	return nil
}

// setOnResize accepts signals only: a command would run on the node, as root, for any user with the right to create pods.
func setOnResize(s *Settings, value string) error {
	if strings.HasPrefix(value, "exec:") {
		return fmt.Errorf("on-resize %q: a pod cannot run commands on its node: must be none or signal:NAME, such as signal:HUP", shorten(value))
	}
	if err := spec.CheckOnResize(value); err != nil {
		return fmt.Errorf("on-resize %q: must be none or signal:NAME, such as signal:HUP", shorten(value))
	}
	s.OnResize = &value
	return nil
}

// shorten cuts a long value to 60 bytes and "…" for an error message.
func shorten(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
