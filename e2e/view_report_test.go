package e2e

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/candor-project/candor/e2e/probes"
	"github.com/candor-project/candor/view"
)

// TestViewReport: candor view shows the settings of the kernel for each setup. It marks as honest only a
// setup without a limit, and Candor's.
func TestViewReport(t *testing.T) {
	l := newLab(t)
	sizes := sizesHere(t)
	for _, s := range l.setups(sizes.limit) {
		t.Run(s.name, func(t *testing.T) {
			out, err := s.run("", []string{os.Getenv("CANDOR_BIN"), "view", "-o", "json"})
			if err != nil {
				t.Fatal(err)
			}
			var r view.Report
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatal(err)
			}
			checkReport(t, s.name, r, sizes)
		})
	}
}

func checkReport(t *testing.T, setup string, r view.Report, s sizes) {
	want := map[string]struct {
		limit, quota, affinity, online int
		honest                         bool
	}{
		"no limit":    {1000 * s.host, 0, s.host, s.host, true},
		"quota only":  {int(s.limit), int(s.limit), s.host, s.host, false},
		"cpuset only": {1000 * s.view(), 0, s.view(), s.host, false},
		"candor":      {int(s.limit), int(s.limit), s.view(), s.view(), true},
	}[setup]
	if r.LimitMilli != want.limit || r.IsTrue != want.honest || r.IsTrue != (len(r.Reasons) == 0) {
		t.Errorf("limit %d, honest %v, reasons %q; want %+v", r.LimitMilli, r.IsTrue, r.Reasons, want)
	}
	numbers := map[string]int{
		view.SourceAffinity: want.affinity, view.SourceCPUSet: want.affinity, view.SourceQuota: (want.quota + 999) / 1000,
		"/sys/devices/system/cpu/online": want.online, "/proc/cpuinfo": want.online,
		"/sys/devices/system/cpu/present": s.host, "/proc/stat": s.host,
	}
	for _, source := range r.Sources {
		if n, ok := numbers[source.Name]; source.Error != "" || ok && source.Count != n {
			t.Errorf("%+v, want %d", source, n)
		}
		if source.Name == view.SourceQuota && source.QuotaMilli != want.quota {
			t.Errorf("quota %dm, want %dm", source.QuotaMilli, want.quota)
		}
	}
}

// TestViewInside: candor view --cpu creates a container for the view, and runs the command in it.
func TestViewInside(t *testing.T) {
	l := newLab(t)
	sizes := sizesHere(t)
	var r view.Report
	if err := json.Unmarshal([]byte(l.ok("view", "--cpu", sizes.limit.String(), "-o", "json")), &r); err != nil {
		t.Fatal(err)
	}
	checkReport(t, "candor", r, sizes)

	got := do(t, l.candor(append([]string{"view", "--cpu", sizes.limit.String()}, play("sees")...)...))
	n := strconv.Itoa(sizes.view())
	if want := strings.Join([]string{n, n, n}, " ") + "\n"; got.code != 0 || got.out != want || !strings.Contains(got.err, "\nThe CPU counts match the limit: yes.") {
		t.Errorf("exit %d, output %q, error output %q; want output %q", got.code, got.out, got.err, want)
	}
	if got := do(t, l.candor(append([]string{"view", "--cpu", sizes.limit.String()}, play("exit", "7")...)...)); got.code != 7 {
		t.Errorf("exit %d, want the command's 7", got.code)
	}
	for class, want := range map[string]int{"sensitive": 0, "flexible": 1} { // a flexible container sees the cpuset of all CPUs
		args := []string{"view", "--cpu", sizes.limit.String(), "--class", class, "--check"}
		if got := do(t, l.candor(args...)); got.code != want || got.err != "" || !strings.Contains(got.out, "The CPU counts match the limit:") {
			t.Errorf("%s: %+v, want exit code %d", class, got, want)
		}
		if got := do(t, l.candor(append(args, play("exit", "7")...)...)); got.code != 7*(1-want)+want {
			t.Errorf("%s with a command: %+v", class, got)
		}
	}
	l.empty()
}

// TestViewByEnvironment: the environment variables help a runtime that reads files which an affinity does not change.
func TestViewByEnvironment(t *testing.T) {
	l := newLab(t)
	sizes := sizesHere(t)
	python := probes.NewPython()
	if python == "" {
		t.Skip("PYTHON_CPU_COUNT is for Python 3.13 and later: there is none here")
	}
	count := []string{"--", python, "-c", "import os; print(os.cpu_count())"}
	run := []string{"run", "--cpu", sizes.limit.String(), "--view", "affinity"}
	for _, test := range []struct {
		flags []string
		want  int
	}{{nil, sizes.host}, {[]string{"--env"}, sizes.view()}} {
		args := append(append(append([]string{}, run...), test.flags...), count...)
		out, err := answer(l.candor(args...), "", nil)
		if err != nil || strings.TrimSpace(out) != strconv.Itoa(test.want) {
			t.Errorf("%v: %q, want %d (%v)", test.flags, out, test.want, err)
		}
	}
}
