package topology

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/candor-project/candor/cpuset"
)

// showKinds formats kinds as "performance:0-7 efficiency:8-23".
func showKinds(kinds []Kind) string {
	var parts []string
	for _, k := range kinds {
		parts = append(parts, k.Name+":"+k.CPUs.String())
	}
	return strings.Join(parts, " ")
}

// coresWith returns a machine with a core for each speed, in MHz or as a capacity. 0 means unknown.
func coresWith(isCapacity bool, speeds ...int) fstest.MapFS {
	var rows []row
	for i, speed := range speeds {
		r := row{cpus: fmt.Sprint(i), core: i}
		if isCapacity {
			r.capacity = speed
		} else {
			r.maxKHz = speed * 1000
		}
		rows = append(rows, r)
	}
	return treeOf(fmt.Sprintf("0-%d", len(speeds)-1), map[int]string{0: "10"}, rows...)
}

func TestKinds(t *testing.T) {
	mhz := func(speeds ...int) fstest.MapFS { return coresWith(false, speeds...) }
	capacity := func(speeds ...int) fstest.MapFS { return coresWith(true, speeds...) }
	const p, e = "performance", "efficiency"
	for _, tt := range []struct {
		name string
		tree fstest.MapFS
		want string
	}{
		{"lists, frequencies are similar (285K)", arrowLake(), p + ":0-7 " + e + ":8-23"},
		{"lists, a quarter of the E cores is much slower (125H)", meteorLake(), p + ":0-3 " + e + ":4-7"},
		{"lists of three kinds", withKinds(mhz(5300, 5300, 4500, 2500), "0-1", "2", "3"), p + ":0-1 " + e + ":2 low-power:3"},
		{"lists count before capacities", withKinds(capacity(400, 1024, 1024), "0", "1-2", ""), p + ":0 " + e + ":1-2"},
		{"one list with all CPUs", withKinds(mhz(5000, 2000), "0-1", "", ""), ""},
		{"the E cores are offline", withKinds(mhz(5000, 5000), "0-1", "2-5", ""), ""},
		{"a list that lacks a CPU does not count", withKinds(mhz(5000, 4900, 3000), "0-1", "", ""), ":0-1 :2"},
		{"lists with a NUL", withKinds(mhz(5000, 5000), "0\n\x00", "1\n\x00", ""), p + ":0 " + e + ":1"},
		{"capacities of arm64", bigLittle(), ":4-7 :0-3"},
		{"clusters of equal cores (GB10)", capacity(718, 718, 997, 997, 731, 731, 1017, 1024), ":2-3,6-7 :0-1,4-5"},
		{"capacities 10 % apart", capacity(1000, 900), ""},
		{"capacities more than 10 % apart", capacity(1000, 899), ":0 :1"},
		{"three capacities", capacity(400, 1024, 800, 400), ":1 :2 :0,3"},
		{"no capacity of a CPU", capacity(1024, 1024, 446, 0), ":0-1,3 :2"},
		{"capacities count before frequencies", func() fstest.MapFS {
			tree := mhz(5000, 2000)
			for i := range 2 {
				tree[cpuPath(i, "cpu_capacity")] = &fstest.MapFile{Data: []byte("1024")}
			}
			return tree
		}(), ""},
		{"frequencies exactly 20 % apart (125H in a guest)", mhz(4500, 4500, 3600, 3600), ":0-1 :2-3"},
		{"frequencies less than 20 % apart", mhz(4500, 3601), ""},
		{"favored cores (turbo boost max 3.0)", mhz(3500, 3500, 4000), ""},
		{"slow favored cores", mhz(1500, 1500, 2000), ""},
		{"preferred cores in steps", mhz(5880, 5500, 5200, 5000, 4700), ""},
		{"compact cores (Zen 5c)", mhz(5100, 5100, 3300, 3300, 3300), ":0-1 :2-4"},
		{"no frequency of a CPU", mhz(4000, 4000, 4000, 0), ""},
		{"no frequency of a CPU, two kinds", mhz(5000, 3000, 3000, 0), ":0 :1-3"},
		{"no frequency", mhz(0, 0), ""},
		{"no files", bare(), ""},
	} {
		m, err := Read(tt.tree)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := showKinds(m.Kinds); got != tt.want {
			t.Errorf("%s: kinds %q, want %q", tt.name, got, tt.want)
		}
		if err := m.Validate(); err != nil || !reflect.DeepEqual(roundTripJSON(t, m), m) {
			t.Errorf("%s: invalid (%v), or JSON changes it", tt.name, err)
		}
	}
}

// TestKindOfCoreWithUnknownCPU: a CPU without a frequency is of the kind of its core.
func TestKindOfCoreWithUnknownCPU(t *testing.T) {
	tree := treeOf("0-4", map[int]string{0: "10"}, row{cpus: "0-1", maxKHz: 5000000}, row{cpus: "2", core: 1, maxKHz: 3000000},
		row{cpus: "3", core: 2, maxKHz: 3000000}, row{cpus: "4", core: 3, maxKHz: 3000000})
	delete(tree, cpuPath(1, "cpufreq/cpuinfo_max_freq"))
	m, err := Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	if got := showKinds(m.Kinds); got != ":0-1 :2-4" || m.KindOf(1) != 0 || m.KindOf(4) != 1 || m.KindOf(9) != 0 {
		t.Errorf("kinds %s", got)
	}
}

// TestUnusableKindLists: lists that contradict each other or cannot be read are no error. The speeds determine the kinds.
func TestUnusableKindLists(t *testing.T) {
	for _, tt := range []struct{ core, atom, lowPower, unreadable string }{
		{core: "0-2", atom: "2-3"},
		{core: "0-3", lowPower: "0"},
		{core: "all"},
		{core: "0-1", atom: "3-2"},
		{core: "0", atom: "1", unreadable: "sys/devices/cpu_core/cpus"},
		{core: "0", atom: "1-3", unreadable: "sys/devices/cpu_atom/cpus"},
	} {
		m, err := Read(failing{withKinds(coresWith(false, 5000, 5000, 5000, 3000), tt.core, tt.atom, tt.lowPower), tt.unreadable})
		if err != nil {
			t.Errorf("%+v: %v", tt, err)
			continue
		}
		if got := showKinds(m.Kinds); got != ":0-2 :3" || m.Validate() != nil {
			t.Errorf("%+v: kinds %q (valid: %v), want the kinds by speed", tt, got, m.Validate())
		}
	}
}

// TestKindsOfOlderJSON: a machine from a version without kinds has the kinds that follow from the speeds.
func TestKindsOfOlderJSON(t *testing.T) {
	m, err := Read(bigLittle())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	const kinds = `"kinds":[{"cpus":"4-7"},{"cpus":"0-3"}],`
	old := strings.Replace(string(text), kinds, "", 1)
	if old == string(text) {
		t.Fatalf("%s is not in %s", kinds, text)
	}
	var again Machine
	if err := json.Unmarshal([]byte(old), &again); err != nil || !reflect.DeepEqual(&again, m) {
		t.Errorf("%v; kinds %s, want %s", err, showKinds(again.Kinds), showKinds(m.Kinds))
	}
}

func TestDescribeKind(t *testing.T) {
	for _, tt := range []struct {
		tree fstest.MapFS
		want string
	}{
		{arrowLake(), "P cores, E cores"},
		{withKinds(coresWith(false, 1, 1, 1), "0", "1", "2"), "P cores, E cores, LP-E cores"},
		{bigLittle(), "cores (capacity 1024), cores (capacity 446)"},
		{coresWith(false, 5100, 4800, 3300), "cores (max 4.8 to 5.1 GHz), cores (max 3.3 GHz)"},
	} {
		m, err := Read(tt.tree)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range m.Kinds {
			got = append(got, m.DescribeKind(i))
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestSlowCPUs(t *testing.T) {
	clusters := func(isCapacity bool, speeds ...int) *Machine {
		m, err := Read(coresWith(isCapacity, speeds...))
		if err != nil {
			t.Fatal(err)
		}
		m.L3s, m.HasL3 = nil, true // an L3 domain for every two cores
		for i := 0; i < len(speeds); i += 2 {
			m.L3s = append(m.L3s, Domain{ID: i / 2, CPUs: cpuset.Range(i, i+1)})
			m.CPUs[i].L3, m.CPUs[i+1].L3 = i/2, i/2
		}
		return m
	}
	meteor, err := Read(meteorLake())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		m    *Machine
		want string
	}{
		{"E cores outside of the L3", meteor, "6-7"},
		{"one kind", clusters(false, 5700, 5700, 5250, 5250), ""},
		{"similar clusters (GB10)", clusters(true, 718, 718, 997, 997, 731, 731, 1017, 1024), ""},
		{"clusters 6 % apart", clusters(true, 1024, 1024, 962, 962, 446, 446), "2-3"},
		{"a cluster without speeds", clusters(true, 1024, 1024, 0, 0, 446, 446), ""},
	} {
		if got := tt.m.SlowCPUs(); got != cpuset.MustParse(tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
}

func TestPartialCores(t *testing.T) {
	smt := func(online string) fstest.MapFS {
		var rows []row
		for i := range 4 {
			rows = append(rows, row{cpus: fmt.Sprintf("%d,%d", i, i+4), core: i})
		}
		return treeOf(online, map[int]string{0: "10"}, rows...)
	}
	for _, tt := range []struct {
		name string
		tree fstest.MapFS
		want string
	}{
		{"all online", smt("0-7"), ""},
		{"a sibling is offline", smt("0-4,6-7"), "1"},
		{"two siblings are offline", smt("1-6"), "3-4"}, // the siblings of 7 and 0
		{"a whole core is offline", smt("0-2,4-6"), ""},
		{"SMT is off", smt("0-3"), ""},
		{"P cores of two CPUs, an E core is offline", withKinds(treeOf("0-5", map[int]string{0: "10"}, row{cpus: "0-1"},
			row{cpus: "2-3", core: 1}, row{cpus: "4", core: 2}, row{cpus: "5", core: 3}, row{cpus: "6", core: 4}), "0-3", "4-5", ""), ""},
		{"E cores, a sibling of a P core is offline", withKinds(treeOf("0-2,4-5", map[int]string{0: "10"}, row{cpus: "0-1"},
			row{cpus: "2-3", core: 1}, row{cpus: "4", core: 2}, row{cpus: "5", core: 3}), "0-2", "4-5", ""), "2"},
	} {
		m, err := Read(tt.tree)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.PartialCores(); got != cpuset.MustParse(tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
}

// FuzzReadKinds puts arbitrary text into the files from which the kinds follow.
func FuzzReadKinds(f *testing.F) {
	f.Add("0-1", "2-3", "", "1024", "4500000", "3600000")
	f.Add("0-3", "1", "2,9", "0", "-1", "<unsupported>")
	f.Add("0", "1-1023", "\x00", "446", "99999999999", "")
	f.Fuzz(func(t *testing.T, core, atom, lowPower, capacity, fast, slow string) {
		tree := withKinds(coresWith(false, 0, 0, 0, 0), core, atom, lowPower)
		for path, text := range map[string]string{
			cpuPath(0, "cpu_capacity"): capacity, cpuPath(1, "cpufreq/cpuinfo_max_freq"): fast,
			cpuPath(2, "cpufreq/cpuinfo_max_freq"): slow, cpuPath(3, "cpu_capacity"): slow,
		} {
			tree[path] = &fstest.MapFile{Data: []byte(text)}
		}
		if m, err := Read(tree); err == nil {
			checkMachine(t, m)
		} else if m != nil {
			t.Fatalf("%v and %v", m, err)
		}
	})
}
