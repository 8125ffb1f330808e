package host

import (
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
)

// A container with a period of 1 s uses its 200 ms in one go, and the pod's quota would stop it after 20 ms
// of each 100: counted by the kernel. (Where the pod's quota is just what the CPUs can
// give, as beside a whole limit, it depends on the timers' lateness how often it throttles.)
func TestPodThrottles(t *testing.T) {
	p := newPod(newEngine(newLab(t)), 200, 200)
	slow := p.ask(ask("web", "0.2"), "web-1")
	slow.Period = bandwidth.MaxPeriod
	p.start(slow, "spin") // here it spins from before its begin on
	before, own := p.throttled(func(pod, web uint64) bool { return true })
	after, _ := p.throttled(func(pod, web uint64) bool { return web >= own+2 })
	if after != before {
		t.Errorf("the pod was throttled in %d of its periods", after-before)
	}
	p.write(200, 200) // as it would be without Candor
	p.throttled(func(pod, web uint64) bool { return pod > after })
}

// throttled waits until the quota has run out in enough periods, and returns the number of such periods of the pod and
// of web.
func (p *kubepod) throttled(enough func(pod, web uint64) bool) (pod, web uint64) {
	p.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		ofPod, err := p.group.Stat()
		if err != nil {
			p.Fatal(err)
		}
		ofWeb, err := p.tree.Group("web-1").Stat()
		if err != nil {
			p.Fatal(err)
		}
		if enough(ofPod.Throttled, ofWeb.Throttled) {
			return ofPod.Throttled, ofWeb.Throttled
		}
		if time.Now().After(end) {
			p.Fatalf("not in a minute: the pod %+v, web %+v", ofPod, ofWeb)
		}
	}
}
