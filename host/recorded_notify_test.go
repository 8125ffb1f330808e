package host

import (
	"slices"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// TestRecordedNotice compares the environment of a command of --on-resize with the variables that users' commands read.
func TestRecordedNotice(t *testing.T) {
	g := &Grant{Main: Process{4711, 1}}
	g.Request = hybrid.Request{ID: "web", Limit: 1500}
	g.CPUs = cpuset.Of(2, 3)
	want := []string{"CANDOR_NAME=web", "CANDOR_PID=4711", "CANDOR_CPUS=2-3", "CANDOR_CPU_COUNT=2", "CANDOR_LIMIT=1500m"}
	if got := notice(g); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
