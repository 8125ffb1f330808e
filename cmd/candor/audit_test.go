package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cmd/candor/internal/audit"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/spec"
)

var audited = []audit.Container{
	{Name: "default/web/app", Runtime: "containerd", Group: "/kubepods/a", CPUs: cpuset.Of(0, 1, 2, 3), Sees: 4, SeesFiles: 4, Limit: 1500, LimitedBy: "/kubepods",
		Processes: 1, Threads: 64, Periods: 1000, Throttled: 430, ThrottledTime: 95 * time.Minute},
	{Name: "a\x1b[31m\nb\u202e", Group: "/x", Sees: 1, SeesFiles: 4, Limit: 1000, Threads: 2},
	{Name: "log", Runtime: "docker", Group: "/docker/b", Sees: 4, SeesFiles: 4, Threads: 1},
}

const auditTable = `NAME             RUNTIME     SEES  LIMIT  THREADS  THROTTLED  LOST  GAIN
default/web/app  containerd  4     1500m  64       43%        95m   likely
a [31m b         -           1/4   1      2        0%         0s    maybe
log              docker      4     -      1        0%         0s    no

SEES 1/4: 1 by the affinity (nproc), 4 in /proc/cpuinfo and /sys.

2 of 3 containers see a CPU count that differs from the limit, 1 would likely gain. Next: candor nri --observe (Kubernetes) plans the CPUs of each; docker run --runtime candor applies them to a container.
`

func TestWriteAudit(t *testing.T) {
	var out bytes.Buffer
	if err := writeAudit(&out, 0, auditRows(audited, true, nil), audited); err != nil || out.String() != auditTable {
		t.Errorf("%v\n%s", err, out.String())
	}
	for want, found := range map[string][]audit.Container{
		"No container runs here.\n": nil,
		"1 container runs here, and the CPU count of each equals its limit.\n": audited[2:],
	} {
		out.Reset()
		if err := writeAudit(&out, 0, auditRows(found, false, nil), found); err != nil || out.String() != want {
			t.Errorf("%v\n%s; want %s", err, out.String(), want)
		}
	}
}

// TestAuditSeenNotes: a container of Candor that should have a view and has none gets a note with the remedy, in the text and in
// JSON. A container without a grant gets none.
func TestAuditSeenNotes(t *testing.T) {
	const text, note = "SEES 1/2: 1 by the affinity (nproc), 2 in /proc/cpuinfo and /sys.\n", "no view is mounted: restart it to mount the view"
	store := state.NewStore(t.TempDir())
	saved := new(state.Saved)
	for id, group := range map[string]string{"web": "/kubepods/a", "own": ""} {
		g := &state.Grant{Engine: state.Engine{Cgroup: group}, State: state.Running, Spec: spec.Spec{View: spec.ViewFull}}
		g.ID = id
		saved.Grants = append(saved.Grants, g)
	}
	if err := store.Save(saved); err != nil {
		t.Fatal(err)
	}
	seen := withoutView().Observation
	for _, test := range []struct {
		id, runtime, group, name string
		note                     string
	}{
		{"0123", "docker", "/docker/a", "web", ""},
		{"own", "candor", "/candor/own", "own", note},
		{"0123", "containerd", "/kubepods/a", "default/web/app", note},
		{"stray", "candor", "/candor/stray", "stray", ""},
	} {
		found := []audit.Container{{Name: test.name, ID: test.id, Runtime: test.runtime, Group: test.group, CPUs: cpuset.Of(0), Sees: 1, SeesFiles: 2, Observed: seen}}
		rows := auditRows(found, true, nil)
		want := text + "\n"
		if test.note != "" {
			want = text + test.name + " sees 1/2: " + test.note + ".\n\n"
		}
		var out bytes.Buffer
		hasNote := addSeenNotes(rows, store)
		if writeSeenLegend(&out, rows); out.String() != want || hasNote != (test.note != "") || rows[0].SeesNote != test.note {
			t.Errorf("%s: note %q, %q, want %q", test.group, rows[0].SeesNote, out.String(), want)
		}
	}
}

// TestReplaceNoted: the second reading decides about a container with a note, and only about this container. Without a second
// reading, the container has ended and has no note.
func TestReplaceNoted(t *testing.T) {
	store := state.NewStore(t.TempDir())
	saved := new(state.Saved)
	for _, id := range []string{"moved", "stale", "ended", "calm"} {
		g := &state.Grant{State: state.Running, Spec: spec.Spec{View: spec.ViewFull}}
		g.ID = id
		saved.Grants = append(saved.Grants, g)
	}
	if err := store.Save(saved); err != nil {
		t.Fatal(err)
	}
	container := func(id, cpus string, seen host.Observation) audit.Container {
		return audit.Container{ID: id, Runtime: "candor", Group: "/candor/" + id, CPUs: cpuset.MustParse(cpus), Observed: seen.Observation}
	}
	first, second := exampleObservation("full", cpuset.MustParse("0-1")), exampleObservation("full", cpuset.MustParse("2-3"))
	found := []audit.Container{
		container("moved", "2-3", first), // between the move of the cgroup and of the view
		container("stale", "2-3", first),
		container("ended", "2-3", first),
		container("calm", "0-1", first),
	}
	rows := auditRows(found, true, nil)
	if !addSeenNotes(rows, store) {
		t.Fatal("no notes at first")
	}
	replaceNoted(rows, []audit.Container{container("moved", "2-3", second), container("stale", "2-3", first), container("calm", "2-3", first)})
	rows = auditRows(found, true, nil)
	addSeenNotes(rows, store)
	for i := range rows {
		if r := &rows[i]; (r.SeesNote != "") != (r.ID == "stale") {
			t.Errorf("%s: note %q", r.ID, r.SeesNote)
		}
	}
}

// TestAuditJSON: scripts read the JSON, so its field names and units must not change.
func TestAuditJSON(t *testing.T) {
	var out bytes.Buffer
	if err := writeJSON(&out, auditRows(audited, false, nil)); err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || len(rows) != 2 {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for field, want := range map[string]any{"name": "default/web/app", "sees": 4.0, "seesFiles": 4.0, "cpus": "0-3", "limitMilli": 1500.0, "threads": 64.0, "throttledShare": 0.43,
		"throttledSeconds": 5700.0, "throttledPeriods": 430.0, "periods": 1000.0, "limitedBy": "/kubepods", "gain": "likely", "differs": true} {
		if got := rows[0][field]; got != want {
			t.Errorf("%s: %v, want %v", field, got, want)
		}
	}
	if _, is := rows[1]["runtime"]; is {
		t.Errorf("an unknown runtime must be omitted: %v", rows[1])
	}
	out.Reset()
	if err := writeJSON(&out, auditRows(nil, false, nil)); err != nil || out.String() != "[]\n" {
		t.Errorf("no containers: %v, %q", err, out.String())
	}
}

const memoryTable = `
The memory limit of these containers differs from /proc/meminfo, or another program mounts a file there:

NAME         RUNTIME  MEMORY   SEES
big          docker   512 MiB  24105 MiB
a [31m b     -        64 MiB   fuse.lxcfs

The view full of Candor shows the limit in /proc/meminfo (docs/view.md).
`

// TestWriteMemoryAudit: the table has the containers whose limit differs from /proc/meminfo, and those with a file of another
// program.
func TestWriteMemoryAudit(t *testing.T) {
	const mib = 1 << 20
	found := []audit.Container{
		{Name: "big", Runtime: "docker", Memory: audit.Memory{Limit: 512 * mib, Shown: 24105 * mib}},
		{Name: "equal", Memory: audit.Memory{Limit: 64 * mib, Shown: 64 * mib}},
		{Name: "a\x1b[31m\nb", Memory: audit.Memory{Limit: 64 * mib, Foreign: "fuse.lxcfs"}},
		{Name: "free", Memory: audit.Memory{Shown: 24105 * mib}},
		{Name: "free beside LXCFS", Memory: audit.Memory{Foreign: "fuse.lxcfs"}},
		{Name: "unknown", Memory: audit.Memory{Limit: 64 * mib}},
	}
	var out bytes.Buffer
	words := func(text string) []string { return strings.Fields(text) }
	if err := writeMemoryAudit(&out, 0, found); err != nil || !slices.Equal(words(out.String()), words(memoryTable)) {
		t.Errorf("%v\n%s", err, out.String())
	}
	out.Reset()
	if err := writeMemoryAudit(&out, 0, found[3:]); err != nil || out.String() != "" {
		t.Errorf("%v\n%s", err, out.String())
	}
}
