package oci

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/spec"
)

// settings are the settings that a container's configuration requests.
type settings struct{ kube.Settings }

// settingsOf reads the annotations candor.dev/SETTING and, for settings without an annotation, the environment variables
// CANDOR_SETTING. An error names the annotation or the variable. has holds the CPU settings of the configuration. byName is the
// class of a container without a class (see allocation). options is the file with the machine's options.
func settingsOf(c *config, has *amount, byName hybrid.Class, options string) (settings, error) {
	annotations, err := fromAnnotations(c.annotations)
	if err != nil {
		return settings{}, err
	}
	environ, err := fromEnvironment(c.environ)
	if err != nil {
		return settings{}, err
	}
	all := settings{annotations.Over(environ.Settings)}
	if c.hasImageAnnotations() {
		return all, checkImage(all.refused(&settings{}, has, byName), options, func(name string) string {
			return fmt.Sprintf("setting %s: an image must not set it, and this engine passes on annotations or labels of images; remove it, or add it to imageSettings", name)
		})
	}
	return all, checkImage(environ.refused(&annotations, has, byName), options, func(name string) string {
		return fmt.Sprintf("environment %s: an image must not set it; use the annotation %s, remove the variable, or add %s to imageSettings", variable(name), kube.PodKey(name), name)
	})
}

// variable returns the name of a setting's environment variable.
func variable(name string) string {
	return "CANDOR_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func fromAnnotations(annotations map[string]string) (w settings, err error) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		name, ours := strings.CutPrefix(key, kube.PodKey(""))
		if !ours {
			continue
		}
		if err := w.set(name, annotations[key]); err != nil {
			return w, fmt.Errorf("annotation %.80s: %w", key, err)
		}
	}
	return w, nil
}

func fromEnvironment(environ []string) (w settings, err error) {
	for _, name := range kube.Names() {
		for _, entry := range environ {
			value, is := strings.CutPrefix(entry, variable(name)+"=")
			if !is {
				continue
			}
			if err := w.set(name, value); err != nil {
				return w, fmt.Errorf("environment %s: %w", variable(name), err)
			}
		}
	}
	return w, nil
}

// set sets a setting. It refuses the value quota of the setting burst, because no process of Candor lives as long as the
// container and could raise the quota.
func (w *settings) set(name, value string) error {
	if err := w.Set(name, value); err != nil {
		return err
	}
	if b := w.Burst; b != nil && b.By == spec.BurstQuota {
		return fmt.Errorf("burst %v: under an engine's runtime, no process can raise the quota: must be kernel, none, or a time such as 20ms", b)
	}
	return nil
}

// allocation returns the allocation of a container. byName is the class of a container that requests no class. It depends on the
// name under which the engine calls candor as its runtime.
func (w *settings) allocation(name string, c *config, byName hybrid.Class) (host.Allocation, error) {
	var a host.Allocation
	has, err := amountIn(c.resources)
	if err != nil {
		return a, err
	}
	a.ID = name
	a.Period = spec.ValueOr(w.Period, has.period(bandwidth.DefaultPeriod))
	a.Limit = hybrid.MilliOf(has.Quota, has.period(bandwidth.DefaultPeriod).Microseconds())
	a.Class = spec.ValueOr(w.Class, byName)
	switch {
	case a.Class == hybrid.Flexible || a.Limit != 0:
	case w.Class != nil:
		return a, fmt.Errorf("a sensitive container needs a limit; use --cpus N of %v or more, or class flexible", hybrid.MinLimit)
	default: // byName can be the class of a default runtime, which every container gets
		a.Class = hybrid.Flexible
	}
	a.Policy = spec.ValueOr(w.Policy, hybrid.Strict)
	a.Topology = spec.ValueOr(w.Topology, hybrid.Prefer)
	a.Mems = a.Topology == hybrid.SingleNUMA && a.Class == hybrid.Sensitive && a.Policy == hybrid.Strict
	a.Burst = spec.ValueOr(w.Burst, spec.Burst{Time: has.burst()})
	if a.Burst.By == spec.BurstAuto {
		a.Burst.By = spec.BurstKernel
	}
	a.Immovable = !spec.ValueOr(w.Movable, true)
	a.OnResize = spec.ValueOr(w.OnResize, "none")
	a.View = spec.ValueOr(w.View, spec.DefaultView(a.Class))
	if a.Memory, err = memoryIn(c.resources); err != nil {
		return a, err
	}
	a.Helpers = spec.ValueOr(w.Helpers, spec.HelpersShow)
	if len(c.args) > 0 {
		a.Command = state.ProgramName(c.args[0])
	}
	return a, a.Check()
}
