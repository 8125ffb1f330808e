package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// A copiedMachine is a machine with one L3 cache, whose /sys a directory has.
type copiedMachine struct {
	threads int            // CPUs per core of the P cores, or of all cores
	kHz     map[string]int // maximum frequency, by CPUs
	p, e    string         // lists of P and E cores; "" if the kernel has no such list
	cpus    string
}

// write writes the files of the machine and returns their directory.
func (m copiedMachine) write(t *testing.T) string {
	dir := t.TempDir()
	put := func(name, text string) {
		file := filepath.Join(dir, "sys/devices", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("system/cpu/online", m.cpus)
	put("system/cpu/present", m.cpus)
	put("system/node/node0/cpulist", m.cpus)
	if m.p != "" {
		put("cpu_core/cpus", m.p)
		put("cpu_atom/cpus", m.e)
	}
	slow := cpuset.MustParse(m.e)
	cpus := cpuset.MustParse(m.cpus)
	for cpu := range cpus.All() {
		prefix, siblings := fmt.Sprintf("system/cpu/cpu%d/", cpu), fmt.Sprint(cpu)
		if first := cpu - cpu%m.threads; !slow.Contains(cpu) && m.threads > 1 {
			siblings = fmt.Sprintf("%d-%d", first, first+m.threads-1)
		}
		put(prefix+"topology/thread_siblings_list", siblings)
		put(prefix+"topology/core_siblings_list", m.cpus)
		put(prefix+"topology/physical_package_id", "0")
		put(prefix+"cache/index3/level", "3")
		put(prefix+"cache/index3/type", "Unified")
		put(prefix+"cache/index3/shared_cpu_list", m.cpus)
		for list, kHz := range m.kHz {
			if set := cpuset.MustParse(list); set.Contains(cpu) {
				put(prefix+"cpufreq/cpuinfo_max_freq", fmt.Sprint(kHz))
			}
		}
	}
	return dir
}

// Machines on which Candor once chose wrong CPUs.
var (
	arrowLake = copiedMachine{threads: 1, cpus: "0-23", p: "0-7", e: "8-23",
		kHz: map[string]int{"0-3,6-7": 5500000, "4-5": 5700000, "8-23": 4600000}}
	raptorLake = copiedMachine{threads: 2, cpus: "0-27", p: "0-15", e: "16-27",
		kHz: map[string]int{"0-7,12-15": 5300000, "8-11": 5400000, "16-27": 4200000}}
	fourCores = copiedMachine{threads: 2, cpus: "0-7", kHz: map[string]int{"0-7": 4000000}}
)

// TestPlanOnCopiedMachines plans containers on machines with several kinds of cores, and on whole cores.
func TestPlanOnCopiedMachines(t *testing.T) {
	for _, tt := range []struct {
		name       string
		machine    copiedMachine
		args       []string
		operations []string // cpu and topology policy of each allocation
		want       []string // CPUs, or a part of the reason
	}{
		{"both kinds have similar frequencies", arrowLake, nil, []string{"12 single-l3"}, []string{"8-19"}},
		{"P cores first", raptorLake, nil, []string{"2 prefer", "2 prefer", "2 prefer"}, []string{"0-1", "2-3", "4-5"}},
		{"E cores if the P cores are taken", raptorLake, nil, []string{"16 prefer", "2 prefer"}, []string{"0-15", "16-17"}},
		{"no policy", raptorLake, nil, []string{"15 none", "2 none"}, []string{"0-14", "15-16"}},
		{"a reserved sibling", fourCores, []string{"--reserved", "0"}, []string{"1 whole-cores", "2 whole-cores"},
			[]string{"1 CPU is not a multiple of 2 threads per core", "2-3"}},
		{"a CPU without a frequency", copiedMachine{threads: 1, cpus: "0-3", kHz: map[string]int{"0-2": 4000000}}, nil,
			[]string{"4 single-l3"}, []string{"0-3"}},
		{"an odd number", fourCores, nil, []string{"3 whole-cores"}, []string{"3 CPUs are not a multiple of 2 threads per core"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var in strings.Builder
			for i, op := range tt.operations {
				cpu, policy, _ := strings.Cut(op, " ")
				fmt.Fprintf(&in, `{"op":"allocate","id":"a%d","cpu":"%s","topology":"%s"}`+"\n", i, cpu, policy)
			}
			args := append([]string{"plan", "--machine", tt.machine.write(t), "-o", "json"}, tt.args...)
			code, out, errOut := command(t, in.String(), args...)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if code != 0 || len(lines) != len(tt.want) {
				t.Fatalf("code %d, %s%s", code, out, errOut)
			}
			for i, want := range tt.want {
				if !strings.Contains(lines[i], `"grant":{"cpus":"`+want+`"`) && !(strings.Contains(lines[i], `"ok":false`) && strings.Contains(lines[i], want)) {
					t.Errorf("%s: %s, want %s", tt.operations[i], lines[i], want)
				}
			}
		})
	}
}

// TestTopologyShowsKinds: text and JSON of a copied machine have the kinds of cores.
func TestTopologyShowsKinds(t *testing.T) {
	dir := raptorLake.write(t)
	_, tree, errOut := runTopology("--machine", dir)
	for _, want := range []string{"20 cores (8 P, 12 E)", "8 P cores of 2 CPUs, max 5.3 to 5.4 GHz: 0-1 2-3", "12 E cores, max 4.2 GHz: 16-27"} {
		if !strings.Contains(tree, want) {
			t.Errorf("%q is not in\n%s%s", want, tree, errOut)
		}
	}
	_, encoded, _ := runTopology("--machine", dir, "-o", "json")
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(encoded)); err != nil {
		t.Fatal(err)
	}
	if want := `"kinds":[{"name":"performance","cpus":"0-15"},{"name":"efficiency","cpus":"16-27"}]`; !strings.Contains(compact.String(), want) {
		t.Errorf("%s is not in %s", want, &compact)
	}
}
