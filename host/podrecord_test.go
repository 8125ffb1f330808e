package host

import (
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
)

// FuzzPodRecord: a record that is written and read back is unchanged; every other annotation is ignored.
func FuzzPodRecord(f *testing.F) {
	f.Add("quota 150000 weight 1536 candor's 1024")
	f.Add("quota -1 weight 2 candor's 2")
	f.Add("quota 9223372036854775807 weight 1 candor's 1")
	f.Add("quota 1 weight 1")
	f.Fuzz(func(t *testing.T, text string) {
		n := parsePodRecord(text)
		if n.quota < 0 || n.weight < 0 || n.candorWeight < 0 || n != (podRecord{}) && n.String() != text {
			t.Errorf("%q: %+v", text, n)
		}
		if again := parsePodRecord(n.String()); again != n {
			t.Errorf("%q: %+v, and then %+v", text, n, again)
		}
	})
}

func TestPodRecord(t *testing.T) {
	want := podRecord{150 * time.Millisecond, 1536, 1024}
	if got := parsePodRecord("quota 150000 weight 1536 candor's 1024"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestPodWeightAfterRefusal: Candor is killed between the record and the kernel write; here v1 refuses the
// quota because of a foreign cgroup. The next operation must not treat Candor's weight as the kubelet's.
func TestPodWeightAfterRefusal(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	p := newPod(newEngine(l), 1300, 1300)
	if p.tree.Version() == 2 {
		t.Skip("cgroup v2 refuses no quota")
	}
	p.start(p.ask(ask("web", "1.2"), "web-1"), "wait")
	p.has("alone", p.liftedFor(400))
	p.play("foreign-9", cgroup.Settings{CPUs: *p.engine.has("web-1"), Quota: 200 * time.Millisecond, Period: bandwidth.DefaultPeriod}, "wait")
	if err := p.Reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	want := p.kubeletLimits(1300, 1300)
	want.Quota = p.liftedQuota()
	p.has("refused", want)
	if !strings.Contains(p.log.String(), "cannot set a pod's quota and weight") {
		t.Errorf("not refused: %s", p.log)
	}
}
