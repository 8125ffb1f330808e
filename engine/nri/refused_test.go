package nri

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// TestRefusedName: the error about a refused container has the container's whole name exactly once, and the cause.
func TestRefusedName(t *testing.T) {
	p, ctr := &Pod{UID: "u1", Namespace: "default", Name: "web"}, &Container{Name: "app"}
	refusal := &hybrid.Refusal{ID: grantName(p, "app"), Name: fullName(p, ctr), Kind: hybrid.ErrNoCapacity, Text: "full"}
	for _, test := range []struct {
		err  error
		want string
	}{
		{refusal, "candor: container default/web/app: no capacity: full"},
		{fmt.Errorf("%w; db cannot leave CPU 1", refusal), "candor: container default/web/app: no capacity: full; db cannot leave CPU 1"},
		{errors.New("bad request: limit"), "candor: container default/web/app: bad request: limit"},
	} {
		got := refused(p, ctr, test.err)
		if got.Error() != test.want || !errors.Is(got, test.err) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// TestCreateRefusedName: the refusal of a container has the container's whole name, and not its ID.
func TestCreateRefusedName(t *testing.T) {
	l := newLab(t)
	pod, huge := sensitivePod(), l.container("app", "app1", 25_000_000)
	_, _, err := l.CreateContainer(ctx, pod, huge)
	if err == nil || !strings.HasPrefix(err.Error(), "candor: container default/web/app: no capacity: needs 250 CPUs") {
		t.Errorf("CreateContainer: %v", err)
	}
	if log := l.log.String(); !strings.Contains(log, "container=default/web/app id="+grantName(podOf(pod), "app")+" reason=") {
		t.Errorf("the log does not name the container: %s", log)
	}
}
