package metrics

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
)

// kernelDesk is a desk that reads the usage of real cgroups.
type kernelDesk struct {
	*desk
	tree *cgroup.Tree
}

func (k *kernelDesk) OpenUsage(g *host.Grant) (Usage, error) { return k.tree.OpenUsage(g.ID) }

// BenchmarkHistograms samples a hundred containers. The metric is the share of a CPU with windows of 10 ms; windows
// of 100 ms need a tenth.
func BenchmarkHistograms(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("makes cgroups: needs root")
	}
	tree, err := cgroup.Open(cgroup.Options{Parent: fmt.Sprintf("/candor-histogram-%d", os.Getpid()), Driver: cgroup.Cgroupfs})
	if err != nil {
		b.Fatal(err)
	}
	cpus, _, err := tree.Effective()
	if err != nil {
		b.Fatal(err)
	}
	d := &desk{snapshot: &host.Snapshot{}}
	defer tree.Remove()
	for n := range 100 {
		g := host.Grant{State: host.Running}
		g.Grant.Request = hybrid.Request{ID: fmt.Sprint("c", n), Class: hybrid.Flexible}
		if err := tree.Group(g.ID).Create(cgroup.Settings{CPUs: cpus, Quota: 50 * ms, Period: 100 * ms}, 0); err != nil {
			b.Fatal(err)
		}
		defer tree.Group(g.ID).Remove()
		d.snapshot.Grants = append(d.snapshot.Grants, g)
	}
	h := New("").Histogram(10*ms, &kernelDesk{d, tree}, slog.New(slog.DiscardHandler))
	h.updateContainers(0)
	defer h.close()
	now, before := time.Duration(0), ownTime(b)
	for b.Loop() {
		now += 10 * ms
		h.sample(now)
	}
	if len(h.containers) != 100 {
		b.Fatalf("got %d containers, want 100", len(h.containers))
	}
	b.ReportMetric(100*(ownTime(b)-before).Seconds()/float64(b.N)/0.01, "%-of-a-CPU")
}

// ownTime returns the CPU time of this process. Wall time would include other processes.
func ownTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
