package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/candor-project/candor/cgroup"
)

// check fails unless file, kernel and views agree and nothing of ended containers is left. want holds the names of the
// containers.
func (l *lab) check(want ...string) {
	l.Helper()
	s, err := l.Snapshot()
	if err != nil {
		l.Fatal(err)
	}
	var names []string
	for i := range s.Grants {
		g := &s.Grants[i]
		names = append(names, g.ID)
		l.checkGroup(g)
	}
	if got := strings.Join(names, " "); got != strings.Join(want, " ") {
		l.Errorf("the state has %q, want %q\n%s", got, strings.Join(want, " "), l.log)
	}
	for _, dir := range []string{"requests", "views"} {
		entries, _ := os.ReadDir(filepath.Join(l.store.Dir, dir))
		for _, e := range entries {
			if _, err := s.Grant(e.Name()); err != nil {
				l.Errorf("left over: %s/%s", dir, e.Name())
			}
		}
	}
	groups, err := l.tree.Groups()
	if err != nil {
		l.Fatal(err)
	}
	for _, name := range groups {
		if _, err := s.Grant(name); err != nil {
			l.Errorf("left over: group %s", name)
		}
	}
}

func (l *lab) checkGroup(g *Grant) {
	l.Helper()
	has, err := l.tree.Group(g.ID).Settings()
	if errors.Is(err, cgroup.ErrNoGroup) && g.State != Running {
		return
	}
	if err != nil {
		l.Fatal(err)
	}
	if has.CPUs != g.CPUs || has.Quota != quotaOf(g) {
		l.Errorf("%s: granted %v quota %v, kernel has %v quota %v", g.ID, g.CPUs, quotaOf(g), has.CPUs, has.Quota)
	}
	if shown, err := l.store.ShownCPUs(g.ID); g.View.HasFiles() && (err != nil || shown != g.CPUs) {
		l.Errorf("%s: has %v, is shown %v", g.ID, g.CPUs, shown)
	}
}
