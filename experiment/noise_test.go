package experiment

import (
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/procfs"
)

// TestInterference: other programs count during the runs only, relative to the CPUs of the lab.
func TestInterference(t *testing.T) {
	affinity, err := procfs.Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	l := &Lab{usable: cpuset.Of(affinity.First())}
	if got := l.interference(); got != nil {
		t.Errorf("before a watch: %v", got)
	}
	l.startWatch()
	run := func(took, programs, workload time.Duration) Noise {
		before := cpuReading{at: time.Unix(1e9, 0)}
		return l.noise(before, cpuReading{at: before.at.Add(took), busy: programs, programs: programs}, workload)
	}
	if n := run(2*time.Second, 1500*time.Millisecond, 500*time.Millisecond); n.Others != 0.5 {
		t.Errorf("noise %+v, want 0.5 CPUs", n)
	}
	if got := l.interference(); got == nil || got.UseMilli != 500 || got.CPUs != 1 {
		t.Errorf("1 s of 2 s on one CPU: %+v", got)
	}
	run(8*time.Second, 6*time.Second, 6*time.Second)
	if got := l.interference(); got != nil {
		t.Errorf("1 s of 10 s: %v", got)
	}
	l.startWatch()
	if got := l.interference(); got != nil {
		t.Errorf("a new watch without runs: %v", got)
	}
}

// TestLabCPUTimes: a reading contains the programs on the CPUs of the lab only.
func TestLabCPUTimes(t *testing.T) {
	all, err := procfs.Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := (&Lab{usable: all}).readCPUTimes()
	if err != nil || whole.programs == 0 || whole.programs > whole.busy {
		t.Errorf("%+v, %v", whole, err)
	}
	if none, err := (&Lab{}).readCPUTimes(); err != nil || none.programs != 0 || none.busy == 0 {
		t.Errorf("a lab without CPUs: %+v, %v", none, err)
	}
}
