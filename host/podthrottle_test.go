package host

import (
	"testing"
	"time"

	"github.com/candor-project/candor/bandwidth"
)

// TestPodThrottles: a container with a period of 1 s uses its 200 ms at once. The kubelet's quota of the pod
// would stop it after 20 ms of each 100 ms. The test counts the throttled periods in the kernel.
// If the pod's quota equals the capacity of its CPUs, as with a whole limit, the number of throttled periods
// depends on the lateness of timers.
func TestPodThrottles(t *testing.T) {
	p := newPod(newEngine(newLab(t)), 200, 200)
	slow := p.ask(ask("web", "0.2"), "web-1")
	slow.Period = bandwidth.MaxPeriod
	p.start(slow, "spin") // the program spins before Candor confirms its start
	before, own := p.throttled(func(pod, web uint64) bool { return true })
	after, _ := p.throttled(func(pod, web uint64) bool { return web >= own+2 })
	if after != before {
		t.Errorf("the pod was throttled in %d of its periods", after-before)
	}
	p.write(200, 200) // as without Candor
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
