package oci

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/spec"
)

// The settings of an image have less power than the settings of the engine's user, because the author of the image can be
// another person. All environment variables may come from the image. The annotations may come from it too, if the engine passes
// on annotations or labels of images.

// hasImageAnnotations reports whether the engine may pass on annotations of the image: Podman 4 passes the annotations of the
// image's manifest, nerdctl the labels of the image. Both engines also add their own annotations, which identify the engine; an
// image can change but not remove these.
func (c *config) hasImageAnnotations() bool {
	for key := range c.annotations {
		if key == "io.container.manager" || strings.HasPrefix(key, "io.podman.annotations.") || strings.HasPrefix(key, "nerdctl/") {
			return true
		}
	}
	return false
}

// refused returns the names of the settings that an image is not allowed to set, because they take resources from other
// containers or override the engine's user. user holds the settings that cannot come from an image; a setting in user overrides
// the image's setting. has and byName are as in settingsOf.
func (image *settings) refused(user *settings, has *amount, byName hybrid.Class) (names []string) {
	class := spec.ValueOr(user.Class, spec.ValueOr(image.Class, byName))
	if has.Quota <= 0 {
		class = hybrid.Flexible
	}
	for name, is := range map[string]bool{
		"preserve": user.Preserve == nil && spec.ValueOr(image.Preserve, false),
		"class":    user.Class == nil && byName == hybrid.Flexible && spec.ValueOr(image.Class, byName) == hybrid.Sensitive,
		"topology": user.Topology == nil && takesCPUsByTopology(spec.ValueOr(image.Topology, hybrid.Prefer), class),
		"movable":  user.Movable == nil && !spec.ValueOr(image.Movable, true),
		"view":     user.View == nil && class == hybrid.Flexible && spec.ValueOr(image.View, spec.ViewAffinity).HasFiles(), // another container's start rewrites the view
		"burst":    user.Burst == nil && spec.ValueOr(image.Burst, spec.Burst{}) != spec.Burst{},
		"period":   user.Period == nil && image.Period != nil && !has.mayHavePeriod(image),
	} {
		if is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// takesCPUsByTopology reports whether a topology policy takes CPUs beyond the limit. The policy whole-cores does. A small
// flexible container that is confined to a domain also does: it keeps a CPU of this domain from all sensitive containers.
func takesCPUsByTopology(policy hybrid.TopologyPolicy, class hybrid.Class) bool {
	return policy == hybrid.WholeCores || class == hybrid.Flexible && policy != hybrid.Prefer && policy != hybrid.NoTopology
}

// minImagePeriod is the shortest period that an image may choose. A shorter period would cost too much CPU time, because the
// kernel runs a timer in each period.
const minImagePeriod = 10 * time.Millisecond

// mayHavePeriod reports whether an image may choose its period. If the period of the engine's user is the kernel's default, the image may
// choose a shorter period, but at least minImagePeriod. Otherwise it may only repeat the user's period. It must not choose a longer period,
// because a container with a longer period runs on more CPUs for longer before it is throttled.
func (a *amount) mayHavePeriod(image *settings) bool {
	users := a.period(bandwidth.DefaultPeriod)
	return *image.Period == users || users == bandwidth.DefaultPeriod && *image.Period < users && *image.Period >= minImagePeriod
}

// checkImage returns an error for settings that an image may not choose, unless the options of the machine (in the file config)
// allow them. The function place returns the error text for a setting.
func checkImage(refused []string, config string, place func(name string) string) error {
	if len(refused) == 0 {
		return nil
	}
	options, err := host.LoadOptions(config)
	if err != nil {
		return err
	}
	for _, name := range options.ImageSettings.Names() {
		if !slices.Contains(kube.Names(), name) {
			return fmt.Errorf("%w %s: imageSettings: unknown setting %.60q; use some of %s", host.ErrBadOptions, config, name, strings.Join(kube.Names(), ", "))
		}
	}
	for _, name := range refused {
		if !slices.Contains(options.ImageSettings.Names(), name) {
			return fmt.Errorf("%s in %s", place(name), config)
		}
	}
	return nil
}
