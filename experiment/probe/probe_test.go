package probe

import "testing"

func TestSourceOf(t *testing.T) {
	for name, want := range map[string]string{
		"/proc/cpuinfo":                           "/proc/cpuinfo",
		"/proc//stat":                             "/proc/stat",
		"/proc/1/stat":                            "",
		"/sys/devices/system/cpu/online":          "/sys/devices/system/cpu/online",
		"/sys/devices/system/cpu/../cpu/possible": "/sys/devices/system/cpu/possible",
		"/sys/devices/system/cpu":                 "/sys/devices/system/cpu/cpu*",
		"/sys/devices/system/cpu/cpu17/topology":  "/sys/devices/system/cpu/cpu*",
		"/sys/devices/system/cpu/cpufreq":         "",
		"/sys/fs/cgroup/cpu.max":                  "cgroup quota",
		"/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us":   "cgroup quota",
		"/sys/fs/cgroup/a/cpuset.cpus.effective":  "cgroup cpuset",
		"/sys/fs/cgroup/a/cpu.weight":             "cgroup weight",
		"/sys/fs/cgroup/a/memory.max":             "",
		"/home/cpu.max":                           "",
		"":                                        "",
	} {
		if got := sourceOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestAddRead(t *testing.T) {
	var s Seen
	for _, name := range []string{"b", "a", "", "b"} {
		s.addRead(name)
	}
	if len(s.Sources) != 2 || s.Sources[0] != (Source{"a", 1}) || s.Sources[1] != (Source{"b", 2}) {
		t.Errorf("%+v, want a once and b twice", s.Sources)
	}
}
