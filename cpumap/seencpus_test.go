package cpumap

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/golden"
	"github.com/candor-project/candor/internal/seencpus"
)

// adopted returns a map of a machine with two CPUs, a sensitive container without a mounted view, a flexible container, a container that has
// ended, and foreign containers.
func adopted(t testing.TB) *Map {
	two := machine(t, "pu:2")
	return &Map{
		Machine: two, Usable: two.Online,
		Grants: []hybrid.Grant{sensitive("web", "0"), flexible("log", "1", 500), sensitive("ended", "")},
		SeenCPUs: map[string]seencpus.Summary{
			"web":   {Affinity: 1, Files: 2, Note: "no view is mounted: restart it to mount the view"},
			"log":   {Affinity: 1, Files: 2},
			"ended": {},
		},
		Foreign: []Foreign{
			{Name: "db\x1b[31m", Runtime: "docker", Limit: 500, CPUs: cpuset.MustParse("0-1"), Summary: seencpus.Summary{Affinity: 2, Files: 2}},
			{Name: "e54fc9a1d947", CPUs: cpuset.MustParse("0"), Summary: seencpus.Summary{Affinity: 1}},
		},
	}
}

// TestSeenText: the list shows affinity and files where they differ, the remedy, and the foreign containers.
func TestSeenText(t *testing.T) {
	golden.Check(t, "testdata/adopted.txt", text(t, adopted(t), TextOptions{}))
	m := adopted(t)
	m.Grants, m.SeenCPUs = nil, nil
	golden.Check(t, "testdata/foreign.txt", text(t, m, TextOptions{}))
	var picture bytes.Buffer
	if err := adopted(t).SVG(&picture); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">1/2<", "restart it to mount the view", "Foreign containers (2, see candor audit): db\\x1b[31m, e54fc9a1d947"} {
		if !strings.Contains(picture.String(), want) {
			t.Errorf("the picture lacks %q:\n%s", want, &picture)
		}
	}
}

// TestPlannedSees: a container that does not run sees the CPUs of its class's default view.
func TestPlannedSees(t *testing.T) {
	m := small(t)
	for i, want := range []string{"4", "3", "1", "9/16", "9/16"} {
		if got := m.sees(&m.Grants[i]).String(); got != want {
			t.Errorf("%s: %s, want %s", m.Grants[i].ID, got, want)
		}
	}
}

// TestManyNotes: the numbers of notes and of foreign containers in the text are bounded.
func TestManyNotes(t *testing.T) {
	m := adopted(t)
	m.Grants = nil
	for i := range maxNotes + 3 {
		id := fmt.Sprint("web-", i)
		m.Grants = append(m.Grants, sensitive(id, "0"))
		m.SeenCPUs[id] = m.SeenCPUs["web"]
	}
	for range maxForeign {
		m.Foreign = append(m.Foreign, m.Foreign[0])
	}
	got := text(t, m, TextOptions{})
	if strings.Count(got, "sees 1/2: no view") != maxNotes || !strings.Contains(got, "3 more containers have a note: candor inspect shows it.") || !strings.Contains(got, "and 2 more: candor audit --all") {
		t.Error(got)
	}
}
