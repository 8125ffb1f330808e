package hostile

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// TestHostileExclusiveGroup has a foreign group with a CPU for itself: cpu_exclusive on cgroup v1, a partition on v2.
func TestHostileExclusiveGroup(t *testing.T) {
	if os.Getenv("CANDOR_IN_GUEST") == "" {
		t.Skip("takes a CPU from the whole machine: runs in the guests of e2e/guest only")
	}
	l := newLab(t)
	all, _, err := l.tree.Effective()
	if err != nil {
		t.Fatal(err)
	}
	taken, rest := all.Lowest(1), all.Minus(all.Lowest(1))
	dir, settings := "/sys/fs/cgroup/cpuset/special", [][2]string{{"cpuset.mems", "0"}, {"cpuset.cpus", taken.String()}, {"cpuset.cpu_exclusive", "1"}}
	if l.tree.Version() == 2 {
		dir, settings = "/sys/fs/cgroup/special", [][2]string{{"cpuset.cpus", taken.String()}, {"cpuset.cpus.partition", "root"}}
		if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+cpuset"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	for _, s := range settings {
		if err := os.WriteFile(dir+"/"+s[0], []byte(s[1]), 0); err != nil {
			t.Fatal(err)
		}
	}

	l.start([]string{"--cpu", "1", "--name", "web"}, "idle")
	l.start([]string{"--class", "flexible", "--name", "log"}, "idle")
	if got, want := l.ps()["log"]["cpus"], rest.Minus(rest.Lowest(1)).String(); got != want {
		t.Errorf("the flexible container has %v, want %v", got, want)
	}
	refused(t, "all CPUs", run(t, l.candor("run", "--cpu", fmt.Sprint(all.Count()), "--", "true")))
	contains(t, "map", l.ok("map", "--sample", "0"), "reserved (1)", fmt.Sprintf("Reserved by /special: CPU %v.", taken))
	contains(t, "map as SVG", l.ok("map", "--sample", "0", "-o", "svg"), fmt.Sprintf("CPU %v: reserved by /special", taken))
	var data struct {
		Reserved   cpuset.Set
		ReservedBy []struct {
			Group string
			CPUs  cpuset.Set
		}
	}
	if err := json.Unmarshal([]byte(l.ok("map", "--sample", "0", "-o", "json")), &data); err != nil {
		t.Fatal(err)
	}
	if data.Reserved != taken || len(data.ReservedBy) != 1 || data.ReservedBy[0].Group != "/special" || data.ReservedBy[0].CPUs != taken {
		t.Errorf("map: %+v", data)
	}
}
