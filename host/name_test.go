package host

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// TestNameRefusal: the error about a container has the display name of the container. The refusal of another container stays as
// it is.
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
	for _, test := range []struct{ name, id, want string }{
		{"default/web/app", "web.app-1234", "msg=x container=default/web/app id=web.app-1234\n"},
		{"db", "db", "msg=x container=db\n"},
		{"/kubepods/pod1", "", "msg=x container=/kubepods/pod1\n"},
	} {
		var out strings.Builder
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", LogName(test.name, test.id))
		if !strings.HasSuffix(out.String(), test.want) {
			t.Errorf("%q, want %q", &out, test.want)
		}
	}
	op := &operation{before: map[string]*Grant{g.ID: g}}
	if a, b := op.displayName(g.ID), op.displayName("db"); a != "default/web/app" || b != "db" {
		t.Errorf("names %q and %q", a, b)
	}
}
