package view

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

// fakeRoot returns a file system with the sysfs, procfs and cgroup files of a machine.
func fakeRoot(files map[string]string) fs.FS {
	tree := fstest.MapFS{
		"sys/devices/system/cpu/online":   {Data: []byte("0-15\n")},
		"sys/devices/system/cpu/present":  {Data: []byte("0-15\n")},
		"sys/devices/system/cpu/possible": {Data: []byte("0-31\n")},
		"proc/cpuinfo":                    {Data: machineText(16)},
		"proc/stat":                       {Data: []byte("cpu  1 2 3\ncpu0 1 2\ncpu15 1 2\nintr 5\n")},
	}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

const (
	v1Mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n" +
		"34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	v1Groups   = "11:cpuset:/candor/web\n10:cpu,cpuacct:/candor/web\n1:name=systemd:/x\n0::/x\n"
	v2Mounts   = "35 23 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
	viewMounts = "42 23 0:25 /view/online /sys/devices/system/cpu/online ro - tmpfs tmpfs rw\n" +
		"43 22 0:25 /view/cpuinfo /proc/cpuinfo ro - tmpfs tmpfs rw\n"
	v2Dir = "sys/fs/cgroup/a.slice/b.scope/"
)

// observeCase is a file system with the expected result of observe.
type observeCase struct {
	name     string
	files    map[string]string
	affinity string
	limit    int
	quota    int
	path     string // path of the quota
	reasons  []string
}

// onV1 returns the files of a container in cgroup v1.
func onV1(quota string) map[string]string {
	return map[string]string{
		"proc/self/mountinfo": v1Mounts,
		"proc/self/cgroup":    v1Groups,
		"sys/fs/cgroup/cpuset/candor/web/cpuset.effective_cpus":  "3-4\n",
		"sys/fs/cgroup/cpu,cpuacct/candor/cpu.cfs_quota_us":      "-1\n",
		"sys/fs/cgroup/cpu,cpuacct/candor/cpu.cfs_period_us":     "100000\n",
		"sys/fs/cgroup/cpu,cpuacct/candor/web/cpu.cfs_quota_us":  quota + "\n",
		"sys/fs/cgroup/cpu,cpuacct/candor/web/cpu.cfs_period_us": "100000\n",
		"sys/fs/cgroup/unified/must-not-be-read/cpu.max":         "1 1\n",
		"sys/fs/cgroup/cpuset/candor/cpuset.effective_cpus":      "0-15\n",
		"sys/fs/cgroup/cpu,cpuacct/web/cpu.cfs_quota_us":         "120000\n", // read if the mount has another root
		"sys/fs/cgroup/cpu,cpuacct/web/cpu.cfs_period_us":        "100000\n",
	}
}

// onV2 returns the files of a container in nested groups of cgroup v2.
func onV2(outer, inner string) map[string]string {
	return map[string]string{
		"proc/self/mountinfo":                         v2Mounts,
		"proc/self/cgroup":                            "0::/a.slice/b.scope\n",
		"sys/fs/cgroup/a.slice/cpu.max":               outer + "\n",
		v2Dir + "cpu.max":                             inner + "\n",
		"sys/fs/cgroup/cpuset.cpus.effective":         "0-15\n",
		"sys/fs/cgroup/a.slice/cpuset.cpus.effective": "3-4\n",
	}
}

// masked adds a view of the CPUs 3 and 4 to files.
func masked(files map[string]string) map[string]string {
	files["proc/self/mountinfo"] += viewMounts
	files["sys/devices/system/cpu/online"] = "3-4\n\n"
	info, _ := parseCPUInfo(machineText(16))
	text, _ := info.render(cpuset.Of(3, 4))
	files["proc/cpuinfo"] = string(text)
	return files
}

// with sets the text of a file.
func with(files map[string]string, path, text string) map[string]string {
	files[path] = text
	return files
}

func TestObserveV1(t *testing.T) {
	for _, test := range []observeCase{
		{"v1 quota only", onV1("150000"), "0-15", 1500, 1500, "/sys/fs/cgroup/cpu,cpuacct/candor/web/cpu.cfs_quota_us",
			[]string{"sched_getaffinity reports 16", "/sys/devices/system/cpu/online reports 16", "/proc/cpuinfo reports 16"}},
		{"v1 cpuset only", onV1("-1"), "3-4", 2000, 0, "", []string{"/sys/devices/system/cpu/online reports 16", "/proc/cpuinfo reports 16"}},
		{"v1 with a view", masked(onV1("150000")), "3-4", 1500, 1500, "/sys/fs/cgroup/cpu,cpuacct/candor/web/cpu.cfs_quota_us", nil},
		{"container on v1 without a namespace", with(masked(onV1("150000")), "proc/self/mountinfo",
			strings.ReplaceAll(v1Mounts, " / /sys/fs/cgroup/cpu", " /candor /sys/fs/cgroup/cpu")+viewMounts), "3-4", 1200, 1200, "/sys/fs/cgroup/cpu,cpuacct/web/cpu.cfs_quota_us", nil},
	} {
		t.Run(test.name, test.check)
	}
}

func TestObserveV2(t *testing.T) {
	for _, test := range []observeCase{
		{"v2 with a view, outer quota is tighter", masked(onV2("110000 100000", "150000 100000")), "3-4", 1100, 1100, "/sys/fs/cgroup/a.slice/cpu.max", nil},
		{"v2 with a view, no quota", masked(onV2("max 100000", "max 100000")), "3-4", 2000, 0, "", nil},
		{"v2 quota above the CPUs", masked(onV2("max 100000", "900000 100000")), "3-4", 2000, 9000, "/" + v2Dir + "cpu.max", nil},
		{"v2 cgroup namespace", with(masked(onV2("110000 100000", "max 1")), "proc/self/cgroup", "0::/\n"), "3-4", 2000, 0, "", nil},
		{"v2 root group", with(masked(onV2("", "")), "proc/self/cgroup", "0::/\n"), "3-4", 2000, 0, "", nil},
		{"no cgroups at all", with(masked(onV2("1 1", "1 1")), "proc/self/cgroup", ""), "3-4", 2000, 0, "", nil},
	} {
		t.Run(test.name, test.check)
	}
}

// TestObserveUnreadable: an unreadable file counts as no quota or as no list of CPUs, and is a reason that
// the view is not true.
func TestObserveUnreadable(t *testing.T) {
	for _, test := range []observeCase{
		{"outside of the namespace", with(masked(onV2("1 1", "1 1")), "proc/self/cgroup", "0::/../x\n"), "3-4", 2000, 0, "",
			[]string{"cgroup quota cannot be read: the group /../x is not visible here"}},
		{"broken quota", masked(onV2("max 1", "many")), "3-4", 2000, 0, "/" + v2Dir + "cpu.max",
			[]string{`cgroup quota cannot be read: "many\n" is not a quota and a period`}},
		{"broken list", with(masked(onV1("-1")), "sys/devices/system/cpu/online", "0-\n"), "3-4", 2000, 0, "",
			[]string{`/sys/devices/system/cpu/online cannot be read: CPU list "0-"`}},
	} {
		t.Run(test.name, test.check)
	}
}

// check compares the report of observe with the expected result.
func (test observeCase) check(t *testing.T) {
	affinity := Source{Name: SourceAffinity, Role: Reported, CPUs: cpuset.MustParse(test.affinity)}
	affinity.Count = affinity.CPUs.Count()
	r := observe(fakeRoot(test.files), affinity)
	quota := source(t, r, SourceQuota)
	if r.LimitMilli != test.limit || quota.QuotaMilli != test.quota || quota.Path != test.path {
		t.Errorf("limit %d, quota %d in %q; want %d, %d in %q", r.LimitMilli, quota.QuotaMilli, quota.Path, test.limit, test.quota, test.path)
	}
	if r.IsTrue != (len(test.reasons) == 0) || len(r.Reasons) != len(test.reasons) {
		t.Fatalf("IsTrue is %v, reasons %q, want %q", r.IsTrue, r.Reasons, test.reasons)
	}
	for i, reason := range r.Reasons {
		if !strings.HasPrefix(reason, test.reasons[i]) {
			t.Errorf("reason %q, want %q", reason, test.reasons[i])
		}
	}
	if online := source(t, r, hostOnline); online.Masked != strings.Contains(test.files["proc/self/mountinfo"], viewMounts) {
		t.Errorf("masked is %v", online.Masked)
	}
}

func source(t *testing.T, r Report, name string) Source {
	t.Helper()
	for _, s := range r.Sources {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no source %s", name)
	return Source{}
}

// TestObserveInside reads the sources of this machine in a view of a single CPU with the same affinity. All
// sources must agree.
func TestObserveInside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "view")
	if err := Write(dir, cpuset.Of(0)); err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := inside(t, "observe", dir, &got); err != nil {
		t.Fatal(err)
	}
	if !got.IsTrue || got.CPUs != 1 {
		t.Errorf("%+v", got)
	}
	for _, s := range got.Sources {
		if isReported := s.Role == Reported; s.Error != "" || isReported && s.CPUs != cpuset.Of(0) || isReported && s.Masked != (s.Name != SourceAffinity) {
			t.Errorf("%+v", s)
		}
	}
	// Outside of a container, nothing is limited.
	for _, s := range ReadSources().Sources {
		if s.Error != "" || s.Masked || s.Name != SourceQuota && s.Count == 0 {
			t.Errorf("on the host: %+v", s)
		}
	}
}

func TestParseStatSkipsOtherLines(t *testing.T) {
	set, err := parseStat([]byte("cpu  1 2\ncpu0 5 5\ncpu17 1\nintr 99 1\nctxt 5\nprocs_blocked 0\n"))
	if err != nil || set != cpuset.Of(0, 17) {
		t.Errorf("%v, %v", set, err)
	}
	if _, err := parseStat([]byte("cpux 1\n")); err == nil {
		t.Error("cpux was accepted")
	}
}

func FuzzQuota(f *testing.F) {
	for _, text := range []string{"max 100000", "-1 100000", "150000 100000\n", "1 0", "18446744073709551615 1", "9 9 9", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		milli, err := parseQuota(text)
		if milli < 0 || milli > cpuset.Max*1000 || err != nil && milli != 0 {
			t.Errorf("%q: %d, %v", text, milli, err)
		}
	})
}

func FuzzMemoryLimit(f *testing.F) {
	for _, text := range []string{"max", "", "536870912\n", "9223372036854771712", "-1", "18446744073709551615", "0", "x"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if limit, err := parseLimit(text); limit < 0 || limit > cgroup.NoMemoryLimit/2 || err != nil && limit != 0 {
			t.Errorf("%q: %d, %v", text, limit, err)
		}
	})
}

// FuzzObserve: for any text in the files, observe returns a complete report. An unreadable list of CPUs never
// counts as equal to the limit.
func FuzzObserve(f *testing.F) {
	f.Add(v1Mounts, v1Groups, "0-1\n", "cpu0 1\n", "100000 100000")
	f.Add(v2Mounts+viewMounts, "0::/a.slice/b.scope\n", "0", "cpu0", "max 1")
	f.Add("1 1 1:1 /\\040\\ /x\\134 rw - cgroup2 c c\n", "0::/../..", "", "", "")
	f.Fuzz(func(t *testing.T, mounts, groups, list, stat, quota string) {
		r := observe(fakeRoot(map[string]string{
			"proc/self/mountinfo": mounts, "proc/self/cgroup": groups, "proc/stat": stat,
			"sys/devices/system/cpu/online": list, v2Dir + "cpu.max": quota,
		}), Source{Name: SourceAffinity, Role: Reported, CPUs: cpuset.Of(0), Count: 1})
		if _, err := parseOnline([]byte(list)); r.IsTrue && err != nil {
			t.Errorf("IsTrue with online %q", list)
		}
		if len(r.Sources) != 8 || r.LimitMilli < 1 || r.LimitMilli > 1000 {
			t.Errorf("%+v", r)
		}
	})
}

func TestReportOfMissingFiles(t *testing.T) {
	r := observe(os.DirFS(t.TempDir()), Source{Name: SourceAffinity, Role: Reported, CPUs: cpuset.Of(0), Count: 1})
	if r.IsTrue || source(t, r, hostOnline).Error != "no such file or directory" {
		t.Errorf("%+v", r)
	}
}

// TestObserveLongMountTable: irrelevant mounts in a long mount table are not stored, and the number of stored
// mounts is bounded.
func TestObserveLongMountTable(t *testing.T) {
	const other = "50 23 0:40 / /mnt/x rw - tmpfs tmpfs rw\n"
	root := fakeRoot(map[string]string{"proc/self/mountinfo": v2Mounts + viewMounts + strings.Repeat(other, 100_000), "proc/self/cgroup": "0::/\n"})
	if table := readMounts(root); len(table) != 3 {
		t.Errorf("%d mounts, want the cgroup mount and the two mounts of the view", len(table))
	}
	if s := source(t, observe(root, readAffinity()), hostOnline); !s.Masked {
		t.Error("the mounts of the view were not found")
	}
	covered := strings.Repeat(viewMounts, 100_000)
	if table := readMounts(fakeRoot(map[string]string{"proc/self/mountinfo": covered})); len(table) > maxMounts {
		t.Errorf("%d mounts, want at most %d", len(table), maxMounts)
	}
}

// TestObserveReservedIDs: the firmware reserves CPU IDs above the bound of a CPU set. They are omitted
// without an error.
func TestObserveReservedIDs(t *testing.T) {
	r := observe(fakeRoot(map[string]string{
		"sys/devices/system/cpu/present":  "0-15,1024-1151\n",
		"sys/devices/system/cpu/possible": "0-1151\n",
	}), Source{Name: SourceAffinity, Role: Reported})
	for name, want := range map[string]string{"/sys/devices/system/cpu/present": "0-15", "/sys/devices/system/cpu/possible": "0-1023"} {
		if s := source(t, r, name); s.Error != "" || s.CPUs.String() != want {
			t.Errorf("%s: %+v, want CPUs %s", name, s, want)
		}
	}
}
