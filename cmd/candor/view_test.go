package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/view"
)

func TestViewTable(t *testing.T) {
	r := view.Report{
		Sources: []view.Source{
			{Name: view.SourceAffinity, Role: view.Reported, CPUs: cpuset.MustParse("17-18"), Count: 2},
			{Name: "/proc/cpuinfo", Role: view.Reported, CPUs: cpuset.MustParse("17-18"), Count: 2, Masked: true},
			{Name: view.SourceCPUSet, Role: view.Grant, Path: "/sys/x", Error: "permission denied"},
			{Name: view.SourceQuota, Role: view.Grant, Count: 2, QuotaMilli: 1500, Path: "/sys/cpu.max"},
			{Name: "/proc/stat", Role: view.Machine, CPUs: cpuset.MustParse("0-31"), Count: 32},
		},
		LimitMilli: 1500, CPUs: 2, IsTrue: true,
	}
	check := func(want string) {
		t.Helper()
		var b strings.Builder
		if err := writeReport(&b, r, &choice{value: "table"}); err != nil || b.String() != want {
			t.Errorf("got\n%s, want\n%s", b.String(), want)
		}
	}
	check(`SOURCE             COUNT  CPUS
sched_getaffinity  2      17-18
/proc/cpuinfo      2      17-18  masked by a view
cgroup cpuset      ?             /sys/x permission denied
cgroup quota       1500m         /sys/cpu.max
/proc/stat         32     0-31   the machine's count, in every container

The CPU counts match the limit: yes. For a limit of 1500m, programs should see 2 CPUs.
`)
	r.Sources, r.LimitMilli, r.CPUs, r.IsTrue = r.Sources[:1], 1000, 1, false
	r.Sources = append(r.Sources, view.Source{Name: view.SourceQuota, Role: view.Grant})
	r.Reasons = []string{"sched_getaffinity reports 2", "that too"}
	check(`SOURCE             COUNT  CPUS
sched_getaffinity  2      17-18
cgroup quota       none

The CPU counts match the limit: no. For a limit of 1, programs should see 1 CPU, but
  sched_getaffinity reports 2
  that too
`)
	const mib = 1 << 20
	r = view.Report{Sources: r.Sources[1:], LimitMilli: 1000, CPUs: 1, IsTrue: true, MemoryLimit: 512 * mib, Memory: []view.MemorySource{
		{Name: "/proc/meminfo", Role: view.Reported, Bytes: 512 * mib, Masked: "ext4"}, // the state directory can be on any file system
		{Name: view.SourceSysinfo, Role: view.Machine, Bytes: 24105 * mib},
		{Name: view.SourceMemoryLimit, Role: view.Grant, Bytes: 512 * mib, Path: "/sys/memory.max"},
	}}
	check(`SOURCE        COUNT  CPUS
cgroup quota  none

SOURCE         MEMORY
/proc/meminfo  512 MiB    masked by a view
sysinfo(2)     24105 MiB  the machine's memory, in every container
cgroup memory  512 MiB    /sys/memory.max

The CPU counts and the memory match the limits: yes. For a limit of 1 and 512 MiB, programs should see 1 CPU and 512 MiB.
`)
	r.IsTrue, r.Reasons = false, []string{"/proc/meminfo reports 24105 MiB, the memory limit is 512 MiB"}
	r.Memory = []view.MemorySource{{Name: "/proc/meminfo", Role: view.Reported, Bytes: 24105 * mib, Masked: "fuse.lxcfs"}, {Name: view.SourceMemoryLimit, Error: "permission denied", Path: "/sys/memory.max"}}
	check(`SOURCE        COUNT  CPUS
cgroup quota  none

SOURCE         MEMORY
/proc/meminfo  24105 MiB  masked by a file of fuse.lxcfs
cgroup memory  ?          /sys/memory.max permission denied

The CPU counts and the memory match the limits: no. For a limit of 1 and 512 MiB, programs should see 1 CPU and 512 MiB, but
  /proc/meminfo reports 24105 MiB, the memory limit is 512 MiB
`)
}

func TestViewCommand(t *testing.T) {
	code, out, errOut := command(t, "", "view", "-o", "json")
	var r view.Report
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || errOut != "" || r.CPUs == 0 {
		t.Errorf("code %d, %q, %q: %v", code, out, errOut, err)
	}
	for line, want := range map[string]struct {
		code  int
		error string
	}{
		"view refresh --unit --state-dir /root/candor":    {2, "--state-dir /root/candor: must not be below /root, which the unit cannot write"},
		"view refresh --unit --state-dir /tmp/a/../b":     {2, "--state-dir /tmp/b: must not be below /tmp, which the unit cannot write"},
		"view refresh --unit --state-dir /usr/lib/candor": {2, "--state-dir /usr/lib/candor: must not be below /usr, which the unit cannot write"},
		"view -o xml":                {2, `--output "xml": must be one of table, wide, json`},
		"view --cpu abc":             {2, `--cpu "abc": must be a number of CPUs`},
		"view --cpu 0":               {2, "missing --cpu; must be a limit of 10m or more"},
		"view --cpus 2":              {2, "unknown flag --cpus; candor view --help lists the flags"},
		"view -- /no/such/program":   {127, `command "/no/such/program": not found`},
		"view nosuchprogram --cpu 1": {127, `command "nosuchprogram": not found`},
		"view -- /etc/passwd":        {126, `command "/etc/passwd": cannot execute it`},
	} {
		code, out, errOut := command(t, "", strings.Fields(line)...)
		if code != want.code || out != "" || !strings.HasPrefix(errOut, errorPrefix(t, strings.Fields(line))+want.error) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("candor %s: code %d, %q, %q; want %d, %q", line, code, out, errOut, want.code, want.error)
		}
	}
}

// TestViewUnitStateDir: the unit has a state directory that it can write.
func TestViewUnitStateDir(t *testing.T) {
	for _, dir := range []string{"/srv/candor-view-test", "/run/candor", "/tmpfs/candor"} {
		code, out, errOut := command(t, "", "view", "refresh", "--unit", "--state-dir", dir)
		if code != 0 || errOut != "" || !strings.Contains(out, " view refresh --state-dir "+dir+"\n") {
			t.Errorf("%s: code %d, %q, %q", dir, code, out, errOut)
		}
	}
}
