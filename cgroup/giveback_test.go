package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cpuset"
)

// givenBackFiles are the files that GiveBack changes, on v1 and v2.
var givenBackFiles = []string{"cpuset.cpus", "cpuset.mems", "cpu.max", "cpu.max.burst", "cpu.weight", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us", "cpu.shares"}

// settingTexts returns the content of a group's files. It replaces the list of CPUs that GiveBack writes on v2, because the
// kernel refuses an empty list, by this empty list.
func settingTexts(t testing.TB, g *Group) string {
	t.Helper()
	var texts strings.Builder
	for _, file := range givenBackFiles {
		for _, h := range []*hierarchy{g.tree.cpuset, g.tree.cpu} {
			text, err := read(g.dir(h), file)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			must(t, err)
			all, err := g.tree.allCPUs(g.dir(h))
			must(t, err)
			if file == cpusFile && h.v2 && string(text) == all.String() {
				if err := os.WriteFile(g.dir(h)+"/"+file, []byte("\n"), 0); !errors.Is(err, unix.ENOSPC) {
					t.Errorf("%s has %s, but the kernel accepts an empty list: %v", g.dir(h), text, err)
				}
				text = nil
			}
			fmt.Fprintf(&texts, "%s %s\n", file, text)
			break // v2, or cpuset and cpu in one hierarchy of v1
		}
	}
	return texts.String()
}

// engineSettings are settings of an engine with a quota between two steps of systemd.
var engineSettings = CPUSettings{CPULimits: CPULimits{Quota: 12500 * time.Microsecond, Period: bandwidth.DefaultPeriod, Weight: 130}}

// candorSettings are settings of Candor that differ from engineSettings in each file.
func candorSettings(cpus cpuset.Set) Settings {
	return Settings{CPUs: cpus, Quota: 40 * time.Millisecond, Period: 50 * time.Millisecond, Burst: 10 * time.Millisecond, Weight: 700}
}

// TestGiveBack: afterwards, the files of a group equal those of a group that never had settings of Candor, also if any write of
// the first attempt failed.
func TestGiveBack(t *testing.T) {
	tr := tree(t)
	a, b := two(t, tr)
	all, _, err := tr.Effective()
	must(t, err)
	for _, cpus := range []cpuset.Set{a, b, all} {
		failures := 0
		for isCut := true; isCut; failures++ {
			g, _ := group(t, tr, "web", candorSettings(cpus), "sleep")
			failed, err := failAt(failures, func() error { return g.GiveBack(engineSettings) })
			if isCut = failed != ""; isCut != (err != nil) {
				t.Fatalf("%v: failed write %q, error %v", cpus, failed, err)
			}
			must(t, g.GiveBack(engineSettings))
			if isCPUs, isMems, err := g.IsConfined(); err != nil || isCPUs || isMems {
				t.Errorf("%v: confined %v %v, %v", cpus, isCPUs, isMems, err)
			}
			if has, err := g.CPUSettings(); err != nil || has != engineSettings {
				t.Errorf("%v: has %+v, %v; want %+v", cpus, has, err, engineSettings)
			}
			var want string
			if above, err := read(g.parentDir(), cpusFile); !tr.cpuset.v2 {
				must(t, err)
				want = string(above)
			}
			if texts := settingTexts(t, g); !strings.HasPrefix(texts, "cpuset.cpus "+want+"\n") {
				t.Errorf("%v: has\n%s\nwant the CPUs %q", cpus, texts, want)
			}
			if written := countWrites(t, func() { must(t, g.GiveBack(engineSettings)) }); len(written) > 0 {
				t.Errorf("%v: without a difference it writes %v", cpus, written)
			}
			must(t, g.End())
		}
		if failures < 4 {
			t.Errorf("%v: only %d writes", cpus, failures)
		}
	}
}

// TestGiveBackHotplug: a group that was given back while a CPU was offline gets this CPU later, also if the group had all other
// CPUs.
func TestGiveBackHotplug(t *testing.T) {
	needGuest(t)
	tr := tree(t)
	if tr.Version() == 1 {
		t.Skip("cgroup v1: a group loses an offline CPU for good, also without Candor")
	}
	_, b := two(t, tr)
	all, _, err := tr.Effective()
	must(t, err)
	online := filepath.Join("/sys/devices/system/cpu", "cpu"+b.String(), "online")
	must(t, os.WriteFile(online, []byte("0"), 0))
	t.Cleanup(func() { os.WriteFile(online, []byte("1"), 0) })
	has := func(g interface {
		Effective() (cpus, mems cpuset.Set, err error)
	}) cpuset.Set {
		cpus, _, err := g.Effective()
		must(t, err)
		return cpus
	}
	eventually(t, "the CPU is offline", func() bool { return has(tr) == all.Minus(b) })
	g, _ := group(t, tr, "web", Settings{CPUs: all.Minus(b)}, "sleep")
	must(t, g.GiveBack(engineSettings))
	must(t, os.WriteFile(online, []byte("1"), 0))
	eventually(t, "the CPU is online", func() bool { return has(tr) == all })
	eventually(t, "the group has the CPU", func() bool { return has(g) == all })
}

// TestGiveBackBesidePartition: a partition beside a group that is given back remains valid.
func TestGiveBackBesidePartition(t *testing.T) {
	needGuest(t)
	tr := tree(t)
	h := tr.cpuset
	if !h.v2 {
		t.Skip("cgroup v1 has no partitions")
	}
	all, _, err := tr.Effective()
	must(t, err)
	special := all.Lowest(1)
	rest := all.Minus(special)
	partition := exclusiveGroup(t, tr, "special", special)
	dir := h.mount + "/beside"
	must(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() { unix.Rmdir(dir) })
	enable(t, h.mount, []string{"cpuset", "cpu"})
	must(t, tr.writeSet(dir, cpusFile, rest.Lowest(1)))
	must(t, writeInt(dir, "cgroup.procs", int64(start(t, "sleep").pid())))
	g := tr.EngineGroup("beside", "/beside")
	must(t, g.GiveBack(engineSettings))
	if kind, err := read(partition, string(ConfineToPartition)); err != nil || string(kind) != "root" {
		t.Errorf("the partition is %q, %v", kind, err)
	}
	if has, _, err := g.Effective(); err != nil || has != rest {
		t.Errorf("the group has the CPUs %v, %v; want %v", has, err, rest)
	}
	if written := countWrites(t, func() { must(t, g.GiveBack(engineSettings)) }); len(written) > 0 {
		t.Errorf("without a difference it writes %v", written)
	}
}

// TestGiveBackUnit: systemd retains the given-back settings of a unit at a reload. They equal the settings of a unit that Candor
// never changed, for units of Candor and of engines, also if any write of the first attempt failed.
func TestGiveBackUnit(t *testing.T) {
	if !runsSystemd() {
		t.Skip("systemd does not run this machine")
	}
	slice := fmt.Sprintf("candorgiveback%d.slice", os.Getpid())
	tr := treeBelow(t, slice, Systemd)
	a, b := two(t, tr)
	group(t, tr, "first", Settings{CPUs: a}, "sleep") // systemd creates the slice for it
	twin := tr.Group("twin")
	plain := engineSettings.kernel()
	plain.cfsBandwidth = roundForSystemd(plain.cfsBandwidth)
	must(t, twin.startScope(append(scopeProperties(slice, "twin", start(t, "sleep").pid()), properties(state{}, state{cpuState: plain})...)))
	must(t, tr.bus.flush())
	must(t, tr.cpu.setCPU(twin.dir(tr.cpu), engineSettings.kernel()))
	before := settingTexts(t, twin)
	if !strings.HasPrefix(before, "cpuset.cpus \n") || !strings.Contains(before, "cpu.max 12500 100000\n") {
		t.Fatalf("the twin has\n%s", before)
	}

	given := giveBackUnits(t, tr, slice, a, b)
	check := func(when string) {
		t.Helper()
		want := settingTexts(t, twin)
		for _, g := range given {
			if texts := settingTexts(t, g); texts != want {
				t.Errorf("%s: %s has\n%s\nthe twin\n%s", when, g.Path(), texts, want)
			}
		}
	}
	check("given back")
	for range 2 {
		reload(t, tr)
		must(t, tr.bus.flush())
		check("after a reload")
	}
	if after := settingTexts(t, twin); after == before {
		t.Errorf("the reload has not rewritten the twin's files:\n%s", after)
	}
	must(t, given[0].GiveBack(engineSettings))
	if texts := settingTexts(t, given[0]); texts != before {
		t.Errorf("given back again, it has\n%s\nwant the quota without rounding\n%s", texts, before)
	}
	checkProperties(t, tr, given)
}

// giveBackUnits starts units of Candor and of engines in a slice, and gives each of them back. For each write of a GiveBack, it
// gives a unit back in which this write fails at the first attempt.
func giveBackUnits(t *testing.T, tr *Tree, slice string, a, b cpuset.Set) (given []*Group) {
	t.Helper()
	failures := 0
	for isCut := true; isCut; failures++ {
		own, _ := group(t, tr, fmt.Sprintf("own%d", failures), candorSettings(b), "sleep")
		engines := tr.EngineGroup("engines", "/"+slice+"/"+scopeName(fmt.Sprintf("engines%d", failures)))
		group(t, tr, fmt.Sprintf("engines%d", failures), candorSettings(a), "sleep")
		must(t, tr.ApplyUnitUpdate([]PendingUnitUpdate{{Group: engines, CPUs: true, Time: true}}))
		isCut = false
		for _, g := range []*Group{own, engines} {
			failed, err := failAt(failures, func() error { return g.GiveBack(engineSettings) })
			if (failed != "") != (err != nil) {
				t.Fatalf("failed write %q, error %v", failed, err)
			}
			isCut = isCut || failed != ""
			must(t, g.GiveBack(engineSettings))
			if g.HasUnreachableUnit() {
				t.Errorf("%s: the unit was changed, and counts as unreachable", g.name)
			}
			given = append(given, g)
		}
	}
	return given
}

// checkProperties fails unless the units have no CPUs of their own.
func checkProperties(t *testing.T, tr *Tree, all []*Group) {
	t.Helper()
	for _, g := range all {
		var property *systemd.Property
		must(t, tr.bus.call(func(ctx context.Context, conn *systemd.Conn) (err error) {
			property, err = conn.GetUnitTypePropertyContext(ctx, filepath.Base(g.Path()), "Scope", "AllowedCPUs")
			return err
		}))
		if cpus, is := property.Value.Value().([]byte); !is || len(cpus) != 0 {
			t.Errorf("%s has AllowedCPUs=%v", g.Path(), property.Value)
		}
	}
}

// TestHasUnreachableUnit: only a group with the name of a unit can have an unreachable unit, and only without a connection to
// systemd.
func TestHasUnreachableUnit(t *testing.T) {
	h := &hierarchy{mount: "/nowhere", parent: "/nowhere/candor"}
	for _, c := range []struct {
		path   string
		hasBus bool
		want   bool
	}{
		{"/kubepods.slice/cri-containerd-abc.scope", false, true},
		{"/kubepods.slice/kubepods-pod1.slice", false, true},
		{"/kubepods/pod1/abc", false, false},
		{"/kubepods.slice/cri-containerd-abc.scope", true, false},
		{"/kubepods/pod1/abc", true, false},
	} {
		tr := &Tree{cpu: h, cpuset: h, all: []*hierarchy{h}}
		if c.hasBus {
			tr.bus = &bus{}
		}
		if got := tr.EngineGroup("web", c.path).HasUnreachableUnit(); got != c.want {
			t.Errorf("%s, bus %v: %v", c.path, c.hasBus, got)
		}
	}
}
