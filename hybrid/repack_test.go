package hybrid_test

import (
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// Repacking finds arrangements that a few moves cannot reach, with immovable fractions and with full CPUs.
func TestRepackLowersSharedTime(t *testing.T) {
	fixed := func(id string, cpu int, milli hybrid.Milli) hybrid.Grant {
		g := withFraction(id, "", cpu, milli)
		g.Immovable = true
		return g
	}
	withFixed := []hybrid.Grant{withFraction("a", "", 3, 200), withFraction("b", "", 3, 200), withFraction("c", "", 2, 300), withFraction("d", "", 0, 700),
		withFraction("e", "", 1, 500), withFraction("f", "", 3, 250), withFraction("gone", "", 3, 200), fixed("s", 2, 200)}
	for name, test := range map[string]struct {
		grants    []hybrid.Grant
		minShared hybrid.Milli
		want      hybrid.Milli
	}{
		"a fixed fraction": {withFixed, 0, 850},
		"unused MinShared": {withFixed, 1000, 850},
		"two fixed fractions": {[]hybrid.Grant{fixed("s", 0, 100), fixed("t", 1, 100), withFraction("gone", "", 3, 300), withFraction("a", "", 2, 150),
			withFraction("b", "", 2, 150), withFraction("c", "", 2, 350), withFraction("d", "", 2, 100)}, 0, 350},
		"no room": {[]hybrid.Grant{fixed("s", 0, 200), withFraction("gone", "", 3, 500), withFraction("a", "", 1, 600), withFraction("b", "", 3, 400),
			withFraction("c", "", 2, 500), withFraction("d", "", 0, 500), withFraction("e", "", 2, 400)}, 0, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := restored(t, "core:4", hybrid.Options{MinShared: test.minShared}, test.grants...).PlanRelease("gone")
			if err != nil {
				t.Fatal(err)
			}
			if plan.Shared != test.want {
				t.Errorf("%s shared, want %s", plan.Shared, test.want)
			}
		})
	}
}
