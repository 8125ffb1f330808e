package top

import (
	"testing"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
)

// TestObservationIsCurrent: a container is observed again after some time, and if its cpuset or its first process changes. An
// observation with a note is repeated earlier.
func TestObservationIsCurrent(t *testing.T) {
	at := time.Unix(1000, 0)
	o := observation{cpus: cpuset.Of(0), pid: 7, at: at}
	for _, test := range []struct {
		name string
		cpus cpuset.Set
		pid  int
		age  time.Duration
		want bool
	}{
		{"new", cpuset.Of(0), 7, maxAge - 1, true},
		{"old", cpuset.Of(0), 7, maxAge, false},
		{"another cpuset", cpuset.Of(1), 7, 0, false},
		{"another process", cpuset.Of(0), 8, 0, false},
	} {
		c := &host.ContainerState{Processes: []int{test.pid, 9}, Settings: cgroup.Settings{CPUs: test.cpus}}
		if got := o.isCurrent(c, at.Add(test.age)); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	o.Note = "no view is mounted"
	c := &host.ContainerState{Processes: []int{7}, Settings: cgroup.Settings{CPUs: cpuset.Of(0)}}
	if !o.isCurrent(c, at.Add(maxNoteAge-1)) || o.isCurrent(c, at.Add(maxNoteAge)) {
		t.Errorf("an observation with a note must be current for %v", maxNoteAge)
	}
}
