package host

import (
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
)

// A note is read as it was written; of what else may stand there nothing is taken.
func FuzzPodNote(f *testing.F) {
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

func TestPodNote(t *testing.T) {
	want := podRecord{150 * time.Millisecond, 1536, 1024}
	if got := parsePodRecord("quota 150000 weight 1536 candor's 1024"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Between the note and the kernel Candor may be killed; here v1 refuses the quota, for a stranger that has more. Candor's
// own weight must not be taken for the kubelet's then.
func TestPodWeightAfterRefusal(t *testing.T) {
	l := newLab(t)
	l.needCPUs(2)
	p := newPod(newEngine(l), 1300, 1300)
	if p.tree.Version() == 2 {
		t.Skip("cgroup v2 refuses no quota")
	}
	p.start(p.ask(ask("web", "1.2"), "web-1"), "wait")
	p.has("alone", p.liftedFor(400))
	p.play("stranger-9", cgroup.Settings{CPUs: *p.engine.has("web-1"), Quota: 200 * time.Millisecond, Period: bandwidth.DefaultPeriod}, "wait")
	if err := p.Reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	want := p.kubeletLimits(1300, 1300)
	want.Quota = p.liftedQuota()
	p.has("refused", want)
	if !strings.Contains(p.log.String(), "keeps the quota and weight that it has") {
		t.Errorf("not refused: %s", p.log)
	}
}
