package host

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// TestNameRefusal: the error about a container has the display name of the container. The refusal of another container stays as it is.
func TestNameRefusal(t *testing.T) {
	g := &Grant{Engine: Engine{Name: "default/web/app"}}
	g.ID = "web.app-1234"
	for _, test := range []struct {
		err  error
		want string
	}{
		{&hybrid.Refusal{ID: g.ID, Kind: hybrid.ErrNoCapacity, Text: "full"}, "default/web/app: no capacity: full"},
		{(&operation{stuck: []*stuckError{{"db-1", "db", cpuset.Of(1), unix.EBUSY}}}).refusedByStuck(
			&hybrid.Refusal{ID: g.ID, Kind: hybrid.ErrNoCapacity, Text: "full"}),
			"default/web/app: no capacity: full; db cannot leave CPUs 1: device or resource busy"},
		{&hybrid.Refusal{ID: "db", Kind: hybrid.ErrUnknownID, Text: "none"}, "db: id unknown: none"},
		{errors.New("disk full"), "disk full"},
	} {
		if got := nameRefusal(test.err, g); got.Error() != test.want || !errors.Is(got, test.err) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	if nameRefusal(nil, g) != nil {
		t.Error("nil is an error")
	}
	op := &operation{before: map[string]*Grant{g.ID: g}}
	if a, b := op.displayName(g.ID), op.displayName("db"); a != "default/web/app" || b != "db" {
		t.Errorf("names %q and %q", a, b)
	}
}
