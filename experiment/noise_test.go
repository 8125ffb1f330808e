package experiment

import (
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/internal/procfs"
)

// TestInterference: other programs count during the runs only, relative to the CPUs on which the program may run under a setup. The report
// is about the setup with the highest use.
func TestInterference(t *testing.T) {
	affinity, err := procfs.Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	l := &Lab{usable: cpuset.Range(0, 63).Union(affinity)}
	if got := l.interference(); got != nil {
		t.Errorf("before a watch: %v", got)
	}
	l.startWatch()
	// run adds a run of a program that uses half of the time of its CPUs. Other programs use the CPU time others of CPU 5.
	run := func(setup string, took time.Duration, cpus cpuset.Set, others time.Duration) Noise {
		before, after := cpuReading{at: time.Unix(1e9, 0), programs: map[int]time.Duration{}}, cpuReading{programs: map[int]time.Duration{}}
		for cpu := range cpus.All() {
			before.programs[cpu], after.programs[cpu] = time.Hour, time.Hour+took/2
		}
		before.programs[5] = time.Hour
		after.programs[5] = max(after.programs[5], time.Hour) + others
		after.programs[200] = time.Hour // it came online during the run
		after.at, after.busy = before.at.Add(took), 2*others
		used := time.Duration(cpus.Count()) * took / 2
		return l.noise(before, after, others, measuredPart{setup, cpus, used})
	}
	if n := run("quota", 10*time.Second, l.usable, 5*time.Second); n.Others != 0.5 {
		t.Errorf("noise %+v, want 0.5 CPUs", n)
	}
	if got := l.interference(); got != nil {
		t.Errorf("half of a CPU of all: %+v", got)
	}
	run("cpuset", 2*time.Second, cpuset.Of(5), time.Second)
	if got := l.interference(); got == nil || got.UseMilli != 500 || got.CPUs != 1 || got.Setup != "cpuset" {
		t.Errorf("half of the program's CPU: %+v", got)
	}
	run("candor", 10*time.Second, cpuset.Of(5, 6), 6*time.Second)
	run("cpuset", 10*time.Second, cpuset.Of(7), 9*time.Second) // CPU 5 is not the program's CPU
	if got := l.interference(); got == nil || got.Setup != "cpuset" || got.UseMilli != 500 {
		t.Errorf("50 %% of the CPUs under cpuset, 30 %% under candor: %+v", got)
	}
	run("cpuset", 8*time.Second, cpuset.Of(5), 0)
	if got := l.interference(); got == nil || got.Setup != "candor" || got.UseMilli != 600 || got.CPUs != 2 {
		t.Errorf("10 %% of the CPU under cpuset, 30 %% under candor: %+v", got)
	}
	l.startWatch()
	if got := l.interference(); got != nil {
		t.Errorf("a new watch without runs: %v", got)
	}
}

// TestPartOf: a program with exclusive CPUs is measured on these CPUs without the program beside it.
func TestPartOf(t *testing.T) {
	l := &Lab{usable: cpuset.Range(0, 3)}
	exclusive, fraction, flexible := new(host.Grant), new(host.Grant), new(host.Grant)
	exclusive.CPUs, exclusive.Exclusive = cpuset.Of(1), cpuset.Of(1)
	fraction.CPUs, fraction.Exclusive = cpuset.Of(1, 2), cpuset.Of(1)
	flexible.CPUs = cpuset.Range(0, 3)
	for name, c := range map[string]struct {
		grant *host.Grant
		want  measuredPart
	}{
		"exclusive CPUs":      {exclusive, measuredPart{"x", cpuset.Of(1), 2 * time.Second}},
		"a fraction of a CPU": {fraction, measuredPart{"x", l.usable, 5 * time.Second}},
		"flexible":            {flexible, measuredPart{"x", l.usable, 5 * time.Second}},
	} {
		if got := l.partOf("x", c.grant, 2, 3); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestLabCPUTimes: a reading contains the programs on each CPU.
func TestLabCPUTimes(t *testing.T) {
	all, err := procfs.Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := (&Lab{}).readCPUTimes()
	if sum := whole.programsSince(cpuReading{programs: map[int]time.Duration{all.First(): 0}}, &all); err != nil || sum == 0 || sum > whole.busy {
		t.Errorf("%+v, %v", whole, err)
	}
}
