package oci

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
)

// wishes are what a container's configuration asks for.
type wishes struct{ kube.Settings }

// wishesOf reads the annotations candor.dev/SETTING, and where there is none the
// environment, CANDOR_SETTING: an image may say what its program is. What cannot be
// meant is an error that names the place.
func wishesOf(c *config, byName hybrid.Class) (wishes, error) {
	said, err := saidIn(c.annotations)
	if err != nil {
		return wishes{}, err
	}
	image, err := saidBy(c.environ)
	if err != nil {
		return wishes{}, err
	}
	w := wishes{said.Settings.Over(image.Settings)}
	return w, image.check(&said, byName)
}

// check refuses what an image may not choose, since who made it is not who runs it: to be left alone, and what costs
// others more than the container's limit. An annotation, which no image can give, overrules the environment.
func (image *wishes) check(said *wishes, byName hybrid.Class) error {
	var name string
	switch {
	case said.Preserve == nil && or(image.Preserve, false):
		name = "preserve"
	case said.Class == nil && byName == hybrid.Flexible && or(image.Class, byName) == hybrid.Sensitive:
		name = "class"
	case said.Topology == nil && or(image.Topology, hybrid.Prefer) == hybrid.WholeCores:
		name = "topology"
	case said.Movable == nil && !or(image.Movable, true):
		name = "movable"
	default:
		return nil
	}
	return fmt.Errorf("environment %s: not for an image to choose: want the annotation %s, or the variable removed", variable(name), kube.PodKey(name))
}

// variable is the environment variable of a setting.
func variable(name string) string {
	return "CANDOR_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func saidIn(annotations map[string]string) (w wishes, err error) {
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

func saidBy(environ []string) (w wishes, err error) {
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

// set takes a setting. No process of Candor lives as long as the container, to raise its quota.
func (w *wishes) set(name, value string) error {
	if err := w.Set(name, value); err != nil {
		return err
	}
	if b := w.Burst; b != nil && b.By == host.BurstQuota {
		return fmt.Errorf("burst %v: under an engine's runtime nobody is there to raise the quota: want kernel, none, or a time such as 20ms", b)
	}
	return nil
}

// allocation is what a container asks of host. byName is the class that the runtime's
// own name says, for a container that says none itself.
func (w *wishes) allocation(name string, c *config, byName hybrid.Class) (host.Allocation, error) {
	var a host.Allocation
	has, err := amountIn(c.resources)
	if err != nil {
		return a, err
	}
	a.ID = name
	a.Period = or(w.Period, has.period(cgroup.DefaultPeriod))
	a.Limit = milliOf(has.Quota, has.period(cgroup.DefaultPeriod).Microseconds())
	a.Class = or(w.Class, byName)
	switch {
	case a.Class == hybrid.Flexible || a.Limit != 0:
	case w.Class != nil:
		return a, fmt.Errorf("a sensitive container needs a limit: want --cpus N of %v or more, or class flexible", hybrid.MinLimit)
	default: // of a default runtime, which every container gets
		a.Class = hybrid.Flexible
	}
	a.Policy = or(w.Policy, hybrid.Strict)
	a.Wish = or(w.Topology, hybrid.Prefer)
	a.Mems = a.Wish == hybrid.SingleNUMA && a.Class == hybrid.Sensitive && a.Policy == hybrid.Strict
	a.Burst = or(w.Burst, host.Burst{Time: has.burst()})
	if a.Burst.By == host.BurstAuto {
		a.Burst.By = host.BurstKernel
	}
	a.Immovable = !or(w.Movable, true)
	a.OnResize = or(w.OnResize, "none")
	a.View = or(w.View, defaultView(a.Class))
	if len(c.args) > 0 {
		a.Command = host.ProgramName(c.args[0])
	}
	return a, a.Check()
}

// or returns what was asked for, or else the default.
func or[T any](asked *T, otherwise T) T {
	if asked == nil {
		return otherwise
	}
	return *asked
}

// milliOf is a quota in milli-CPU, to the nearest: engines round the quota. None is 0.
func milliOf(quota, period int64) hybrid.Milli {
	if quota <= 0 || period <= 0 {
		return 0
	}
	return max(hybrid.Milli(min(math.Round(float64(quota)*1000/float64(period)), float64(hybrid.MaxLimit+1))), 1)
}

// defaultView is the view that a class needs.
func defaultView(class hybrid.Class) host.View {
	if class == hybrid.Sensitive {
		return host.ViewFull
	}
	return host.ViewAffinity
}
