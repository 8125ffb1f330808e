package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkCreation measures the time for which an engine waits when it creates a container in a pod: Admit, and ConfirmStart
// after the cgroup exists. A sensitive container takes a CPU from all existing flexible containers. "memory" is a sensitive
// container with a memory view.
func BenchmarkCreation(b *testing.B) {
	for _, others := range []int{0, 100, 250} {
		for name, a := range map[string]Allocation{"flexible": flexible("web", "0.1"), "sensitive": ask("web", "1"), "memory": withMemory(ask("web", "1"), 64*mib)} {
			b.Run(fmt.Sprintf("%d/%s", others, name), func(b *testing.B) { benchCreation(b, others, a) })
		}
	}
}

func benchCreation(b *testing.B, others int, a Allocation) {
	l := newLab(b)
	l.needCPUs(2)
	l.KeepOpen(2048) // as a plugin does
	b.Cleanup(func() { l.KeepOpen(0) })
	idle := newEngineIn(l, l.parent+"-idle")
	pid, end := idle.process("wait") // moves between groups without an event
	defer end()
	for i := range others {
		name := fmt.Sprintf("idle%d", i)
		a := idle.ask(flexible(name, "0"), name)
		a.Engine.Pod = name
		idle.created(a, pid, func() {}, func() {})
	}
	p := newPod(newEngine(l), 0, 100)
	a = p.ask(a, "web1")
	b.ReportAllocs()
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		pid, end := idle.process("wait")
		used += p.created(a, pid, b.StartTimer, b.StopTimer)
		end()
		err := errors.Join(p.Stopped(ctx, a.ID, a.Engine.Cgroup), p.tree.Group("web1").Remove(), p.EndSandbox(ctx, a.Engine.Pod, a.Engine.Sandbox))
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
}

// created admits a container, creates its cgroup with an existing process and confirms its start. It times Candor's
// part; used is the CPU time of that part.
func (e *engine) created(a Allocation, pid int, start, stop func()) (used time.Duration) {
	e.Helper()
	timed := func(f func()) {
		start()
		before := onCPU()
		f()
		used += onCPU() - before
		stop()
	}
	var g *Grant
	var err error
	timed(func() { g, err = e.Admit(ctx, a, 0) })
	if err == nil {
		err = e.tree.Group(filepath.Base(a.Engine.Cgroup)).Create(settingsOf(g), pid)
	}
	if err == nil {
		timed(func() { err = e.ConfirmStart(ctx, a, pid) })
	}
	if err != nil {
		e.Fatal(err)
	}
	return used
}

// onCPU returns the CPU time of this process.
func onCPU() time.Duration {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}
