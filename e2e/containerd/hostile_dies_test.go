package containerd

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestHostileRuntimeDies: containerd 2.4.2 panics whenever a plugin connects while the list of sandboxes
// exceeds 4 MB and has fewer than four containers. candor nri leaves it alone for ever longer times, and
// connects when the sandboxes have been removed.
func TestHostileRuntimeDies(t *testing.T) {
	if os.Getenv("CANDOR_HOSTILE") == "" {
		t.Skip("waits for a minute: make test-hostile runs it")
	}
	l := newEngine(t)
	c := newCensus(l)
	const pods, each = 9, 600_000 // bytes: 4 MB hold fewer than eight of them
	var all []*pod
	for range pods {
		all = append(all, must[*pod](c)(c.newPod(0, 100, map[string]string{"tenant/data": strings.Repeat("x", each)})))
	}
	l.plugin = l.start(l.candor, l.pluginArgs()...)
	stop := make(chan struct{})
	stopped := make(chan struct{})
	var deaths atomic.Int32
	go func() { // the service that starts containerd again
		defer close(stopped)
		for {
			ended := make(chan struct{})
			engine := l.engine
			go func() { engine.Wait(); close(ended) }()
			select {
			case <-stop:
				return
			case <-ended:
				deaths.Add(1)
				l.startEngine()
			}
		}
	}()
	const message = "the runtime has ended repeatedly right after the plugin connected"
	l.wait("the report", l.plugin, func() bool { return strings.Contains(l.plugin.output(), message) })
	until := deaths.Load()
	time.Sleep(4 * time.Second) // less than the first long wait
	if more := deaths.Load() - until; more > 1 {
		t.Errorf("containerd died %d times in 4 s after the report", more)
	}
	for _, p := range all {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := l.removeSandbox(ctx, p.id); err != nil {
			t.Error(err)
		}
		cancel()
	}
	l.wait("candor nri", l.plugin, func() bool {
		return strings.Contains(l.plugin.output(), "the runtime stays up with the plugin connected")
	})
	close(stop)
	<-stopped
	if got := strings.Count(l.plugin.output(), message); got != 1 {
		t.Errorf("the report is in the log %d times", got)
	}
}
