package containerd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/hybrid"
)

const countLoop = `i=0; while :; do i=$((i+1)); echo $i; done`

// TestChargeMany: several charged containers together use the sum of their limits, also while their logs are rotated, and no log
// lacks a line. CANDOR_CHARGED=50 sets the number of containers.
func TestChargeMany(t *testing.T) {
	number := 5
	if text := os.Getenv("CANDOR_CHARGED"); text != "" {
		var err error
		if number, err = strconv.Atoi(text); err != nil || number < 1 {
			t.Fatalf("CANDOR_CHARGED=%q: must be a number of containers", text)
		}
	}
	l := newLab(t)
	agent := l.startCharging("19474")
	limit := hybrid.Milli(max(20, 600/number)) // at 20m, the quota is 2 ms in each period
	var all []*container
	for i := range number {
		all = append(all, l.chargedWith(fmt.Sprintf("count%d", i), countLoop, "none", limit))
	}
	for _, c := range all {
		account := fmt.Sprintf(`candor_container_helper_account_seconds{container=%q,namespace="default",pod=%q}`, c.name, c.pod.name)
		l.wait("the end of the debt of "+c.name, agent, func() bool {
			saved, isKnown := metricsAt("http://127.0.0.1:19474/metrics")[account]
			return isKnown && saved > -0.3*float64(limit)/1000
		})
	}
	shims := make([]int, number)
	for i, c := range all {
		shims[i] = c.shim()
	}
	read := func() (sum time.Duration) {
		sum = threadTime(t, l.engine.Process.Pid)
		for i, c := range all {
			sum += c.ownTime() + threadTime(t, shims[i])
		}
		return sum
	}
	for _, c := range all {
		c.rotate()
	}
	want := float64(number) * float64(limit) / 1000
	// Work of containerd that no container causes, such as statistics, is not charged.
	unattributed := func() float64 {
		return metricsAt("http://127.0.0.1:19474/metrics")[`candor_helper_unattributed_cpu_seconds_total{daemon="containerd"}`]
	}
	holds := func() bool { // other work of containerd, such as the rotation, can disturb a measurement
		otherBefore := unattributed()
		before, start := read(), time.Now()
		time.Sleep(5 * time.Second)
		span := time.Since(start)
		used, other := float64(read()-before)/float64(span), (unattributed()-otherBefore)/span.Seconds()
		t.Logf("%d containers with a limit of %v: %.3f of %.3f CPUs, and %.3f CPUs of other work", number, limit, used-other, want, other)
		return used-other > 0.85*want && used-other < 1.15*want && other < 0.25*want
	}
	isHeld := false
	for range 3 {
		isHeld = isHeld || holds()
	}
	if !isHeld {
		t.Errorf("%d containers and their helpers do not use %.3f CPUs\n%s", number, want, agent.output())
	}
	for _, c := range all {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
		c.checkLines()
	}
}

func (c *container) logFile() string { return filepath.Join(c.config.LogDirectory, c.name+".log") }

// rotate rotates the log of a container as the kubelet does.
func (c *container) rotate() {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := os.Rename(c.logFile(), c.logFile()+".1"); err != nil {
		c.Fatal(err)
	}
	if _, err := c.cri.ReopenContainerLog(ctx, &cri.ReopenContainerLogRequest{ContainerId: c.id}); err != nil {
		c.Fatal(err)
	}
}

// checkLines checks that the rotated log of a countLoop has each line once. The end of the program can cut the last line.
func (c *container) checkLines() {
	c.Helper()
	var lines []string
	for _, file := range []string{c.logFile() + ".1", c.logFile()} {
		text, err := os.ReadFile(file)
		if err != nil {
			c.Fatal(err)
		}
		before := len(lines)
		lines = append(lines, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
		if len(lines) < before+2 {
			c.Errorf("%s: the container wrote nothing to %s", c.name, file)
		}
	}
	for i, line := range lines[:len(lines)-1] {
		if fields := strings.Fields(line); len(fields) != 4 || fields[3] != strconv.Itoa(i+1) {
			c.Fatalf("%s: line %d: %q", c.name, i+1, line)
		}
	}
}
