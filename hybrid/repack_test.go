package hybrid_test

import (
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// Repacking finds what no few moves do, beside fractions that stay, and where what is packed fills its CPUs.
func TestRepackToShareLess(t *testing.T) {
	isFixed := func(id string, cpu int, milli hybrid.Milli) hybrid.Grant {
		g := withFraction(id, "", cpu, milli)
		g.Immovable = true
		return g
	}
	one := []hybrid.Grant{withFraction("a", "", 3, 200), withFraction("b", "", 3, 200), withFraction("c", "", 2, 300), withFraction("d", "", 0, 700),
		withFraction("e", "", 1, 500), withFraction("f", "", 3, 250), withFraction("gone", "", 3, 200), isFixed("s", 2, 200)}
	for name, test := range map[string]struct {
		grants    []hybrid.Grant
		minShared hybrid.Milli
		want      hybrid.Milli
	}{
		"one stays":                         {one, 0, 850},
		"time is kept, but nobody needs it": {one, 1000, 850},
		"two stay": {[]hybrid.Grant{isFixed("s", 0, 100), isFixed("t", 1, 100), withFraction("gone", "", 3, 300), withFraction("a", "", 2, 150),
			withFraction("b", "", 2, 150), withFraction("c", "", 2, 350), withFraction("d", "", 2, 100)}, 0, 350},
		"no room is left": {[]hybrid.Grant{isFixed("s", 0, 200), withFraction("gone", "", 3, 500), withFraction("a", "", 1, 600), withFraction("b", "", 3, 400),
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
