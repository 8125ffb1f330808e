package host

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/hybrid"
)

// TestBurst: the burst follows the quota through resizes. It never exceeds the quota, and returns to the
// requested value when this value fits.
func TestBurst(t *testing.T) {
	l := newLab(t)
	a := ask("web", "0.5")
	a.Burst.Time = 20 * time.Millisecond
	l.must(a, "wait")
	has := func() time.Duration {
		t.Helper()
		s, err := l.tree.Group("web").Settings()
		if err != nil {
			t.Fatal(err)
		}
		return s.Burst
	}
	if got := has(); got != a.Burst.Time {
		t.Errorf("burst %v, want %v", got, a.Burst.Time)
	}
	for _, step := range []struct {
		limit int
		want  time.Duration
	}{{100, 10 * time.Millisecond}, {900, a.Burst.Time}, {1000, 0}, {500, a.Burst.Time}} { // a limit of a whole CPU has no quota
		if _, _, err := l.Resize(ctx, "web", hybrid.Milli(step.limit), 0); err != nil {
			t.Fatal(err)
		}
		if got := has(); got != step.want {
			t.Errorf("limit %dm: burst %v, want %v", step.limit, got, step.want)
		}
	}
	for _, mishap := range []struct {
		what string
		do   func() error
	}{
		{"a foreign process wrote it", func() error {
			g := l.tree.Group("web")
			s, err := g.Settings()
			if s.Burst = 0; err == nil {
				err = g.Apply(s)
			}
			return err
		}},
		{"the state is lost", func() error { return os.Remove(l.store.File()) }},
		{"all is lost", func() error { return os.RemoveAll(l.store.Dir) }},
	} {
		if err := mishap.do(); err != nil {
			t.Fatal(err)
		}
		l.nudge()
		if got := has(); got != a.Burst.Time {
			t.Errorf("%s: burst %v, want %v", mishap.what, got, a.Burst.Time)
		}
	}
}

func TestBadBurst(t *testing.T) {
	for _, test := range []struct {
		limit string
		burst time.Duration
		want  string
	}{
		{"0.5", 50 * time.Millisecond, ""},
		{"0.5", 51 * time.Millisecond, "must be at most 50ms, the quota"},
		{"0", time.Millisecond, "needs a limit"},
		{"0.5", -time.Millisecond, "must be 0 to"},
	} {
		a := flexible("web", test.limit)
		a.Burst.Time, a.Period = test.burst, bandwidth.DefaultPeriod
		if err := a.Check(); (err == nil) != (test.want == "") || err != nil && (!errors.Is(err, ErrBadSpec) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("limit %s, burst %v: %v, want %q", test.limit, test.burst, err, test.want)
		}
	}
}
