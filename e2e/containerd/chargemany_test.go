package containerd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/candor-project/candor/e2e/charged"
)

// TestChargeMany: several charged containers together use the sum of their limits, also while their logs are rotated, and no log
// lacks a line.
func TestChargeMany(t *testing.T) {
	number, limit := charged.Number(t)
	l := newLab(t)
	agent := l.startCharging("19474")
	var all []*container
	for i := range number {
		all = append(all, l.chargedWith(fmt.Sprintf("count%d", i), charged.CountLoop, "none", limit))
	}
	for _, c := range all {
		account := fmt.Sprintf(`candor_container_helper_account_seconds{container=%q,namespace="default",pod=%q}`, c.name, c.pod.name)
		l.wait("the end of the debt of "+c.name, agent, func() bool {
			saved, isKnown := metricsAt("http://127.0.0.1:19474/metrics")[account]
			return isKnown && saved > -0.3*float64(limit)/1000
		})
	}
	monitors := make([]int, number)
	for i, c := range all {
		monitors[i] = c.monitorPID()
	}
	read := func() (sum time.Duration) {
		sum = l.copyTime()
		for i, c := range all {
			sum += c.ownTime() + threadTime(t, monitors[i])
		}
		return sum
	}
	for _, c := range all {
		c.rotate()
	}
	unattributed := func() time.Duration {
		seconds := metricsAt("http://127.0.0.1:19474/metrics")[`candor_helper_unattributed_cpu_seconds_total{daemon="containerd"}`]
		return time.Duration(seconds * float64(time.Second))
	}
	charged.ReachLimits(t, "with rotated logs", number, limit, read, unattributed)
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

// checkLines checks that the rotated log of a charged.CountLoop has each line once. The end of the program can cut the last line.
func (c *container) checkLines() {
	c.Helper()
	var log strings.Builder
	for _, file := range []string{c.logFile() + ".1", c.logFile()} {
		text, err := os.ReadFile(file)
		if err != nil {
			c.Fatal(err)
		}
		if log.Write(text); strings.Count(string(text), "\n") < 2 {
			c.Fatalf("%s: the container wrote nothing to %s", c.name, file)
		}
	}
	lines, err := parseLog(log.String())
	if err != nil {
		c.Fatalf("%s: %v", c.name, err)
	}
	for i, line := range lines[:len(lines)-1] {
		if line != strconv.Itoa(i+1) {
			c.Fatalf("%s: line %d: %q", c.name, i+1, line)
		}
	}
}

// parseLog returns the lines in the text of a log in the format of the CRI. conmon writes a line in two entries, the first of them
// with the tag P, if the line ends after the bytes that conmon has read.
func parseLog(text string) (lines []string, err error) {
	isPart := false
	for entry := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(entry, "\n"), " ", 4) // time, stream, tag, text
		if len(fields) != 4 {
			return nil, fmt.Errorf("entry %d: %q", len(lines)+1, entry)
		}
		if isPart {
			lines[len(lines)-1] += fields[3]
		} else {
			lines = append(lines, fields[3])
		}
		isPart = fields[2] == "P"
	}
	return lines, nil
}

// endsWith reports whether a line is the last of a log.
func (c *container) endsWith(line string) bool {
	c.Helper()
	lines, err := parseLog(lastEntries(c.T, c.logFile()))
	return err == nil && len(lines) > 0 && lines[len(lines)-1] == line
}

// lastEntries returns the last entries of a log.
func lastEntries(t *testing.T, name string) string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		return "" // not created yet
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	const most = 1000 // bytes
	start := max(info.Size()-most, 0)
	text := make([]byte, most)
	n, err := file.ReadAt(text, start)
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	entries := string(text[:n])
	if start > 0 {
		_, entries, _ = strings.Cut(entries, "\n")
	}
	return entries
}

func TestParseLog(t *testing.T) {
	const text = "2026-11-28T05:00:00Z stdout F 1\n2026-11-28T05:00:00Z stdout P 2\n2026-11-28T05:00:01Z stdout P \n2026-11-28T05:00:01Z stdout F 3 4\n" +
		"2026-11-28T05:00:02Z stdout F \n2026-11-28T05:00:02Z stdout P 5\n"
	if got, err := parseLog(text); err != nil || !slices.Equal(got, []string{"1", "23 4", "", "5"}) {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := parseLog("2026-11-28T05:00:00Z stdout F 1\nstdout F 2\n"); err == nil {
		t.Errorf("an entry without a time: got %q", got)
	}
	file := t.TempDir() + "/log"
	for _, entries := range []int{0, 1, 500} {
		if err := os.WriteFile(file, []byte(strings.Repeat("0123456789\n", entries)), 0o600); err != nil {
			t.Fatal(err)
		}
		got := lastEntries(t, file)
		if strings.Count(got, "0123456789\n")*11 != len(got) || entries > 0 && got == "" {
			t.Errorf("%d entries: got %q", entries, got)
		}
	}
}
