package containerd

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/e2e/previous"
)

// TestReleaseUpgrade swaps candor nri of the previous release and of this release 20 times. Each swap kills the plugin with SIGKILL at a
// random time, while pods start and end. The settings of running containers do not change, and both releases read the state that the
// other has written.
func TestReleaseUpgrade(t *testing.T) {
	if os.Getenv("CANDOR_RELEASE") == "" {
		t.Skip("make test-release builds the previous release")
	}
	l := newLab(t)
	if all := l.all(); all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	binaries := [2]string{l.candor, previous.Build(t, "../..")}
	c := newCensus(l)
	had := c.beginTwo()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	completed := 0
	for round := range 20 {
		operation := make(chan error)
		go func() { operation <- l.startAndEnd() }()
		time.Sleep(time.Duration(random.Int64N(int64(500 * time.Millisecond))))
		l.plugin.kill()
		switch err := <-operation; {
		case err == nil:
			completed++
		case !isBroken(err):
			t.Errorf("round %d: %v", round, err)
		}
		l.startPluginBy(binaries[(round+1)%2], l.pluginArgs()...) // first the previous release
		c.unmoved(had)
		if err := l.startAndEnd(); err != nil {
			t.Errorf("round %d, after the swap: %v", round, err)
		}
		if bad, err := os.ReadFile(l.path("candor/state.json.bad")); err == nil {
			t.Fatalf("round %d: one of the releases has refused the state:\n%s", round, bad)
		}
		if text, err := os.ReadFile(l.path("candor/state.json")); err != nil || !strings.HasPrefix(string(text), `{"version":2,`) {
			t.Errorf("round %d: %v, state %.60s", round, err, text)
		}
	}
	t.Logf("%d of 20 operations completed", completed)
	c.check()
	for ctr := range had {
		ctr.sees()
	}
}

// startAndEnd starts a flexible container in a pod of its own, and removes the pod.
func (l *lab) startAndEnd() error {
	p, err := l.newPod(200, 50, nil)
	if err != nil {
		return fmt.Errorf("create a pod: %w", err)
	}
	_, err = p.run("app", 200, 50, false)
	if end := p.remove(); err == nil {
		err = end
	}
	return err
}
