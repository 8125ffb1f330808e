package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/host/state"
	"github.com/candor-project/candor/internal/apitest"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/kube/apiserver"
)

// A failing is a change of the fixture after which a check is not ok.
type failing struct {
	id     string
	set    func(*fixture)
	status Status
	found  string // part of the finding
}

// writes returns a change that writes a file.
func writes(name, text string) func(*fixture) {
	return func(f *fixture) { f.Helper(); f.write(name, text) }
}

// edits returns a change that replaces a part of a text.
func edits(name, text, part, by string) func(*fixture) {
	if !strings.Contains(text, part) {
		panic(part)
	}
	return writes(name, strings.Replace(text, part, by, 1))
}

const (
	configTOML = "etc/containerd/config.toml"
	mountinfo1 = "proc/1/mountinfo"
	kubeletAt  = "var/lib/kubelet/config.yaml"
	nriTable   = "version = 3\n[plugins.'io.containerd.nri.v1.nri']\n"
)

// failings has at least one case for each check (TestEachCheckFails).
var failings = map[string]failing{
	"old kernel": {"kernel-version", writes("proc/sys/kernel/osrelease", "6.1.0-9-amd64\n"), Warning, "Linux 6.1.0-9-amd64"},
	"no kernel":  {"kernel-version", func(f *fixture) { f.remove("proc/sys") }, Failed, "osrelease"},
	"bad sysfs":  {"cpus", writes("sys/devices/system/cpu/online", "many\n"), Failed, "cannot read the CPUs"},
	"one CPU":    {"cpus", writes("sys/devices/system/cpu/online", "0\n"), Warning, "1 CPU: "},
	"isolated":   {"isolated-cpus", writes("sys/devices/system/cpu/isolated", "2-3\n"), Warning, "CPUs 2-3: isolated"},
	"no burst":   {"cpu-burst", func(f *fixture) { f.remove("sys/fs/cgroup/system.slice/cpu.max.burst") }, Warning, "no cpu.max.burst"},
	"no burst, no groups": {"cpu-burst", func(f *fixture) {
		f.remove("sys/fs/cgroup/system.slice")
		f.write("proc/sys/kernel/osrelease", "5.10.0")
	}, Warning, "Linux 5.10.0"},
	"no burst, v1":  {"cpu-burst", func(f *fixture) { f.v1() }, Warning, "no cpu.cfs_burst_us"},
	"few instances": {"inotify", writes("proc/sys/fs/inotify/max_user_instances", "16\n"), Warning, "max_user_instances is 16: "},
	"few watches":   {"inotify", writes("proc/sys/fs/inotify/max_user_watches", "100\n"), Warning, "max_user_watches is 100: "},
	"bad watches":   {"inotify", writes("proc/sys/fs/inotify/max_user_watches", "many\n"), Unknown, `"many"`},
	"no inotify":    {"inotify", func(f *fixture) { f.remove("proc/sys/fs") }, Warning, "no inotify"},
	"SELinux":       {"selinux", writes("sys/fs/selinux/enforce", "1"), Warning, "enforcing"},
	"AppArmor":      {"apparmor", func(f *fixture) { f.For = UseKubernetes; f.write("sys/module/apparmor/parameters/enabled", "Y\n") }, Warning, "on: "},
	"no cgroups":    {"cgroup-version", writes(mountinfo1, ""), Failed, "no cgroup file system"},
	"no cpuset":     {"cgroup-controllers", writes("sys/fs/cgroup/cgroup.controllers", "cpu io\n"), Failed, "no cpuset controller"},
	"no cpu":        {"cgroup-controllers", writes("sys/fs/cgroup/cgroup.controllers", "cpuset io\n"), Failed, "no cpu controller"},
	"no mounts":     {"cgroup-controllers", func(f *fixture) { f.remove(mountinfo1) }, Failed, "mountinfo"},
	"read-only":     {"cgroup-writable", edits(mountinfo1, v2Mount, "rw,nosuid", "ro,nosuid"), Failed, "/sys/fs/cgroup is mounted read-only"},
	"fewer CPUs":    {"cgroup-cpus", writes("sys/fs/cgroup/cpuset.cpus.effective", "0-1\n"), Warning, "can have CPUs 0-1, and lacks CPUs 2-3"},
	"slice with fewer CPUs": {"cgroup-cpus", func(f *fixture) {
		f.write("sys/fs/cgroup/candor/cpuset.cpus.effective", "0-1\n")
		f.write("sys/fs/cgroup/candor/cpuset.mems.effective", "0\n")
	}, Warning, "lacks CPUs 2-3"},
	"quota above": {"cgroup-quota", func(f *fixture) {
		f.write("sys/fs/cgroup/candor/cpu.max", "150000 100000\n")
		f.write("sys/fs/cgroup/candor/cpu.max.burst", "0\n")
	}, Warning, "group /candor has a quota of 150ms per 100ms"},
	"no memory":             {"cgroup-memory", writes("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io\n"), Warning, "no memory controller"},
	"no cgroups, no memory": {"cgroup-memory", writes(mountinfo1, ""), Unknown, "cgroup"},
	"old runc":              {"oci-runtime", func(f *fixture) { f.program("usr/bin/runc", "runc version 1.0.3") }, Warning, "runc 1.0.3"},
	"no runc":               {"oci-runtime", func(f *fixture) { f.For = UseDocker; f.remove("usr/bin/runc") }, Failed, "no runc and no crun"},
	"writable runc":         {"oci-runtime", func(f *fixture) { f.chmod("usr/bin/runc", 0o777) }, Unknown, "other users can write this program"},
	"runc hangs":            {"oci-runtime", func(f *fixture) { f.write("usr/bin/runc", "#!/bin/sh\nexec sleep 30\n") }, Unknown, "killed"},
	"old containerd": {"runtime-version", func(f *fixture) {
		f.program("usr/bin/containerd", "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20")
	}, Failed, "containerd 1.6.20~ds1 has no NRI"},
	"no runtime":      {"runtime-version", func(f *fixture) { f.For = UseNRI; f.noContainerd() }, Failed, "no containerd"},
	"old CRI-O":       {"runtime-version", func(f *fixture) { f.crio("1.25.0", "") }, Failed, "CRI-O 1.25.0 has no NRI"},
	"disable = true":  {"nri-enabled", writes(configTOML, nriTable+"disable = true\n"), Failed, "NRI is off"},
	"disabled plugin": {"nri-enabled", writes(configTOML, "disabled_plugins = ['io.containerd.nri.v1.nri']\n"+containerd), Failed, "NRI is off"},
	"section of another version": {"nri-enabled", func(f *fixture) {
		f.program("usr/bin/containerd", "containerd 1.7.35")
		f.write(configTOML, "[plugins.'io.containerd.nri.v1.nri']\ndisable = false\n")
	}, Failed, "ignores the section of NRI"},
	"disabled CRI":            {"nri-enabled", writes(configTOML, "disabled_plugins = ['cri']\n"), Failed, "CRI plugin is disabled"},
	"off by default":          {"nri-enabled", func(f *fixture) { f.program("usr/bin/containerd", "containerd 1.7.35") }, Failed, "off by default in containerd 1.7.35"},
	"no connections":          {"nri-enabled", writes(configTOML, nriTable+"disable_connections = true\n"), Failed, "accepts no connections"},
	"bad TOML":                {"nri-enabled", writes(configTOML, "[[["), Failed, "/etc/containerd/config.toml: cannot parse"},
	"changed since its start": {"nri-enabled", func(f *fixture) { f.late(configTOML) }, Warning, "has changed since containerd started"},
	"CRI-O off":               {"nri-enabled", func(f *fixture) { f.crio("1.34.0", "[crio.nri]\nenable_nri = false\n") }, Failed, "NRI is off"},
	"no socket":               {"nri-socket", func(f *fixture) { f.remove("var/run/nri/nri.sock") }, Failed, "/var/run/nri/nri.sock is missing"},
	"file as socket":          {"nri-socket", func(f *fixture) { f.remove("var/run/nri/nri.sock"); f.write("var/run/nri/nri.sock", "") }, Failed, "is no socket"},
	"runtime down":            {"nri-socket", func(f *fixture) { f.remove("proc/9"); f.remove("var/run/nri/nri.sock") }, Failed, "containerd does not run"},
	"short timeout":           {"nri-timeout", writes(configTOML, nriTable+"plugin_request_timeout = '1s'\n"), Warning, "1s, but candor nri waits up to 1.5s"},
	"bad timeout":             {"nri-timeout", writes(configTOML, nriTable+"plugin_request_timeout = 'soon'\n"), Failed, `"soon": must be a time`},
	"not required":            {"nri-required-plugins", writes(configTOML, nriTable), Warning, "runs on all CPUs until the plugin is back"},
	"validator off":           {"nri-required-plugins", edits(configTOML, containerd, "enable = true", "enable = false"), Warning, "runs on all CPUs"},
	"static policy":           {"kubelet-cpu-manager", edits(kubeletAt, kubeletFile, "Policy: none", "Policy: static"), Failed, "with the policy static (/var/lib/kubelet/config.yaml)"},
	"static policy saved":     {"kubelet-cpu-manager", writes("var/lib/kubelet/cpu_manager_state", `{"policyName":"static","defaultCpuSet":"0-3"}`), Failed, "cpu_manager_state"},
	"static policy in use": {"kubelet-cpu-manager", func(f *fixture) {
		f.program("usr/bin/kubelet", "")
		f.process(11, "usr/bin/kubelet", "--cpu-manager-policy=static")
	}, Failed, "process 11"},
	"bad kubelet file": {"kubelet-cpu-manager", writes(kubeletAt, "kind: [\n"), Unknown, "config.yaml"},
	"drivers differ":   {"kubelet-cgroup-driver", edits(kubeletAt, kubeletFile, "systemd", "cgroupfs"), Failed, "cgroup driver cgroupfs"},
	"driver of the used runtime": {"kubelet-cgroup-driver", func(f *fixture) {
		f.secondRuntime("cgroupfs")
		edits(kubeletAt, kubeletFile, "cgroupDriver", "containerRuntimeEndpoint: unix:///var/run/crio/crio.sock\ncgroupDriver")(f)
	}, Failed, "cri-o (/etc/crio/crio.conf) has cgroupfs"},
	"driver of an unknown runtime": {"kubelet-cgroup-driver", func(f *fixture) { f.secondRuntime("systemd") }, Unknown, "names no containerRuntimeEndpoint"},
	"NRI of an unknown runtime":    {"nri-enabled", func(f *fixture) { f.secondRuntime("systemd") }, Unknown, "names no containerRuntimeEndpoint"},
	"another runtime": {"nri-enabled", edits(kubeletAt, kubeletFile, "cgroupDriver", "containerRuntimeEndpoint: unix:///run/cri-dockerd.sock\ncgroupDriver"),
		Unknown, "uses the runtime at /run/cri-dockerd.sock"},
	"NRI off in an import": {"nri-enabled", func(f *fixture) {
		f.write(configTOML, "imports = ['x.toml']\ndisabled_plugins = ['io.containerd.nri.v1.nri']\n"+containerd)
		f.write("etc/containerd/x.toml", nriTable+"disable = false\n")
	}, Failed, "NRI is off"},
	"no driver":        {"kubelet-cgroup-driver", edits(kubeletAt, kubeletFile, "cgroupDriver: systemd\n", ""), Warning, "names no driver"},
	"nothing reserved": {"kubelet-reserved", edits(kubeletAt, kubeletFile, "kubeReserved: {cpu: 250m}\n", ""), Warning, "reserves 250m, Candor 500m"},
	"other CPUs reserved": {"kubelet-reserved", func(f *fixture) {
		edits(kubeletAt, kubeletFile, "systemReserved:", "reservedSystemCPUs: 0\nsystemReserved:")(f)
		f.write("etc/candor/nri.yaml", "version: 1\nnode: {reserved: '1', minShared: '0'}\n")
	}, Warning, "reserves the CPUs 0, Candor 1"},
	"bad reservation":       {"kubelet-reserved", edits(kubeletAt, kubeletFile, "{cpu: 250m}", "{cpu: much}"), Warning, "reserves "},
	"no Docker runtime":     {"docker-runtimes", writes("etc/docker/daemon.json", "{}"), Warning, "no runtime candor"},
	"no program of runtime": {"docker-runtimes", func(f *fixture) { f.remove("usr/local/bin/candor-runc") }, Failed, "/usr/local/bin/candor-runc, is missing"},
	"bad daemon.json":       {"docker-runtimes", writes("etc/docker/daemon.json", "{"), Failed, "daemon.json"},
	"no engine":             {"docker-runtimes", func(f *fixture) { f.For = UseDocker; f.remove("usr/bin"); f.remove("etc/docker") }, Failed, "neither Docker nor Podman"},
	"no Podman runtime":     {"podman-runtimes", func(f *fixture) { f.remove("etc/containers") }, Warning, "no runtime candor"},
	"bad candor.conf":       {"podman-runtimes", writes("etc/containers/containers.conf.d/candor.conf", "[["), Failed, "not TOML"},
	"no refresher":          {"view-refresh", func(f *fixture) { f.remove("proc/10") }, Warning, "neither candor-view.service nor candor nri runs"},
	"LXCFS mounted":         {"lxcfs", writes(mountinfo1, v2Mount+"31 1 0:27 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw\n"), Warning, "mounted on /var/lib/lxcfs"},
	"LXCFS runs":            {"lxcfs", func(f *fixture) { f.folder("sys/fs/cgroup/system.slice/lxcfs.service") }, Warning, "lxcfs.service runs"},
	"DRA driver registered": {"dra-driver-cpu", writes("var/lib/kubelet/plugins_registry/dra.cpu-reg.sock", ""), Warning, "/var/lib/kubelet/plugins_registry/dra.cpu-reg.sock"},
	"DRA driver":            {"dra-driver-cpu", writes("var/lib/kubelet/plugins/dra.cpu/dra.sock", ""), Warning, "dra.sock"},
	"second plugin":         {"nri-plugins", func(f *fixture) { f.append("proc/net/unix", fmt.Sprintf(socketLine, 102)) }, Warning, "1 connections of plugins other than"},
	"plugin without candor": {"nri-plugins", func(f *fixture) { f.remove("proc/10") }, Warning, "1 connections"},
	"plugin of the runtime": {"nri-plugins", writes("opt/nri/plugins/10-balloons", ""), Warning, `plugins of /opt/nri/plugins: "10-balloons"`},
	"koordlet socket":       {"koordlet", writes("var/run/koordlet/koordlet.sock", ""), Warning, "koordlet.sock"},
	"koordlet unit":         {"koordlet", func(f *fixture) { f.folder("sys/fs/cgroup/system.slice/koordlet.service") }, Warning, "koordlet.service runs"},
	"tuned":                 {"tuned", func(f *fixture) { f.folder("sys/fs/cgroup/system.slice/tuned.service") }, Warning, "tuned.service runs"},
	"irqbalance socket":     {"irqbalance", writes("run/irqbalance/irqbalance7.sock", ""), Warning, "socket"},
	"irqbalance unit":       {"irqbalance", func(f *fixture) { f.folder("sys/fs/cgroup/system.slice/irqbalance.service") }, Warning, "irqbalance.service runs"},
	"unknown option":        {"host-options", writes("etc/candor/host.json", `{"reserve":"0"}`), Failed, "unknown field"},
	"reserved too high":     {"host-options", writes("etc/candor/host.json", `{"reserved":"9"}`), Failed, "does not have CPU 9"},
	"all reserved":          {"host-options", writes("etc/candor/host.json", `{"reserved":"0-3"}`), Failed, "no CPU remains"},
	"bad nri.yaml":          {"nri-config", writes("etc/candor/nri.yaml", "version: 1\nreserve: 1\n"), Failed, "unknown field"},
	"newer state":           {"state", writes("run/candor/state.json", `{"version":99}`), Failed, "newer"},
	"unknown feature":       {"state", writes("run/candor/state.json", `{"version":3,"features":["turbo"],"boot":"b","grants":[]}`), Failed, `feature "turbo": written by a newer`},
	"broken state":          {"state", writes("run/candor/state.json", `{`), Warning, "state.json"},
	"state of a preview":    {"state", writes("run/candor/plan-options.json", `{}`), Warning, "holds the plans"},
	"removal of Candor": {"state", func(f *fixture) {
		f.write("run/candor/state.json", stateFile)
		boot, err := procfs.BootID()
		if err == nil {
			err = state.NewStore(filepath.Join(f.Root, "run/candor")).MarkGiveBack(boot)
		}
		if err != nil {
			f.Fatal(err)
		}
	}, Failed, "are being given back"},
	"file as state":         {"state", func(f *fixture) { f.remove("run/candor"); f.write("run/candor", "") }, Failed, "is no directory"},
	"writable state":        {"state", func(f *fixture) { f.chmod("run/candor", 0o777) }, Failed, "others can write it"},
	"no space":              {"state-space", func(f *fixture) { f.space(1000, 1000) }, Failed, "/run/candor has 0.0 MiB"},
	"no inodes":             {"state-space", func(f *fixture) { f.space(1<<30, 3) }, Failed, "3 inodes"},
	"little space":          {"state-space", func(f *fixture) { f.space(2<<20, 1000) }, Warning, "2.0 MiB"},
	"statfs fails":          {"state-space", func(f *fixture) { f.freeSpace = func(string) (a, b uint64, err error) { return 0, 0, fs.ErrInvalid } }, Unknown, "invalid"},
	"older agent":           {"agent-version", func(f *fixture) { f.program("usr/local/bin/candor", "candor v1.0.0 (go1.26 linux/amd64)") }, Warning, "is version v1.0.0, this candor is v1.2.3"},
	"agent without version": {"agent-version", func(f *fixture) { f.program("usr/local/bin/candor", "hello") }, Unknown, "prints no version"},
	"older CRD":             {"cluster-versions", func(f *fixture) { f.cluster(`{"properties":{"status":{"properties":{"machine":{}}}}}`, "v1.2.3") }, Warning, "lacks status."},
	"no kubeconfig":         {"cluster-versions", func(*fixture) {}, Unknown, "no kubeconfig"},
	"bad kubeconfig": {"cluster-versions", func(f *fixture) {
		f.Connect = func() (*apiserver.Client, error) {
			return apiserver.New(apiserver.Options{Kubeconfig: "/no/such/file"})
		}
	}, Unknown, "/no/such/file"},
	"no CRD":      {"cluster-versions", func(f *fixture) { f.cluster("", "v1.2.3") }, Unknown, "nodecpus.candor.dev"},
	"older chart": {"cluster-versions", func(f *fixture) { f.cluster(f.crd(), "1.0.0") }, Warning, "the cluster has candor 1.0.0, candor-scheduler 1.0.0"},
}

// TestChecks: each change of the fixture gives its row. The texts are single lines, and a row that is not ok has a next step.
func TestChecks(t *testing.T) {
	for name, test := range failings {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			test.set(f)
			row := f.row(test.id)
			if row.Status != test.status || !strings.Contains(row.Found, test.found) || row.Next == "" || strings.ContainsAny(row.Found+row.Next, "\n\x1b") {
				t.Errorf("%+v; want %s, %q", row, test.status, test.found)
			}
		})
	}
}

// TestNRIRemedy: the next step names the setting that has an effect, and the file that has it.
func TestNRIRemedy(t *testing.T) {
	const imported = "etc/containerd/conf.d/nri.toml"
	imports := "version = 2\nimports = ['/" + imported + "']\n"
	for name, test := range map[string]struct{ main, imported, want string }{
		"version 1":           {"oom_score = 0\n", "", "set disable = false in [plugins.nri] of /" + configTOML},
		"version 2":           {"version = 2\n", "", "set disable = false in [plugins.'io.containerd.nri.v1.nri'] of /" + configTOML},
		"off in an import":    {imports, "[plugins.'io.containerd.nri.v1.nri']\ndisable = true\n", "of /" + imported},
		"listed in an import": {imports, "disabled_plugins = ['io.containerd.nri.v1.nri']\n", "remove NRI from disabled_plugins of /" + imported},
		"no CRI":              {imports, "disabled_plugins = ['io.containerd.grpc.v1.cri']\n", "remove the CRI plugin from disabled_plugins of /" + imported},
	} {
		f := newFixture(t)
		f.program("usr/bin/containerd", "containerd 1.7.35")
		f.write(configTOML, test.main)
		if test.imported != "" {
			f.write(imported, "version = 2\n"+test.imported)
		}
		f.age()
		if row := f.row("nri-enabled"); row.Status != Failed || !strings.Contains(row.Next, test.want) {
			t.Errorf("%s: %+v, want %q", name, row, test.want)
		}
	}
}

// mayOnlyWarn are the checks that never fail: Candor works in each of their cases.
var mayOnlyWarn = []string{"isolated-cpus", "cpu-burst", "inotify", "selinux", "apparmor", "cgroup-cpus", "cgroup-quota", "cgroup-memory",
	"nri-required-plugins", "kubelet-reserved", "view-refresh", "lxcfs", "dra-driver-cpu", "nri-plugins", "koordlet", "tuned", "irqbalance", "agent-version", "cluster-versions"}

// TestEachCheckFails: each check has a case in which it fails, or warns if it never fails.
func TestEachCheckFails(t *testing.T) {
	worst := map[string]Status{}
	for _, test := range failings {
		if rank(test.status) > rank(worst[test.id]) {
			worst[test.id] = test.status
		}
	}
	for _, id := range IDs() {
		want := Failed
		if slices.Contains(mayOnlyWarn, id) {
			want = Warning
		}
		if worst[id] != want {
			t.Errorf("%s: the worst case is %q, want %s", id, worst[id], want)
		}
	}
}

// TestHealthy: on the machine of the fixture every check is ok, for each use.
func TestHealthy(t *testing.T) {
	for _, use := range append(Uses(), "") {
		f := newFixture(t)
		f.cluster(f.crd(), "1.2.3")
		f.age()
		f.For = Use(use)
		r := Run(f.System, nil)
		for _, row := range r.Checks {
			if row.Status != OK || row.Next != "" {
				t.Errorf("--for %s: %+v", use, row)
			}
		}
		if r.Status != OK || len(r.Unread()) > 0 || use == "" && len(r.Checks) != len(IDs()) || use != "" && len(r.Checks) >= len(IDs()) {
			t.Errorf("--for %s: status %s, %d checks", use, r.Status, len(r.Checks))
		}
	}
}

// TestOtherMachines: machines on which a check is ok although they differ from the fixture.
func TestOtherMachines(t *testing.T) {
	for name, test := range map[string]failing{
		"CRI-O": {"nri-enabled", func(f *fixture) { f.crio("1.34.0", "[crio.nri]\nenable_nri = true\n") }, OK, "cri-o"},
		"CRI-O of the kubelet, and a containerd without NRI": {"nri-enabled", func(f *fixture) {
			f.secondRuntime("systemd")
			f.write(configTOML, nriTable+"disable = true\n")
			edits(kubeletAt, kubeletFile, "cgroupDriver", "containerRuntimeEndpoint: unix:///run/crio/crio.sock\ncgroupDriver")(f)
		}, OK, "cri-o"},
		"driver of CRI-O": {"kubelet-cgroup-driver", func(f *fixture) {
			f.secondRuntime("systemd")
			f.write(configTOML, "version = 3\n")
			edits(kubeletAt, kubeletFile, "cgroupDriver", "containerRuntimeEndpoint: unix:///run/crio/crio.sock\ncgroupDriver")(f)
		}, OK, "systemd, in the kubelet and in cri-o"},
		"no node":               {"cluster-versions", func(f *fixture) { f.remove("var/lib/kubelet") }, OK, "is no node"},
		"CRI-O, cgroup manager": {"kubelet-cgroup-driver", func(f *fixture) { f.crio("1.34.0", "") }, OK, "systemd"},
		"v1 with burst":         {"cpu-burst", func(f *fixture) { f.v1(); f.write("sys/fs/cgroup/cpu/cpu.cfs_burst_us", "0\n") }, OK, "cpu.cfs_burst_us"},
		"v1":                    {"cgroup-version", func(f *fixture) { f.v1() }, OK, "v1"},
		"isolated and used": {"isolated-cpus", func(f *fixture) {
			f.write("sys/devices/system/cpu/isolated", "3\n")
			f.write("etc/candor/host.json", `{"useIsolated":true}`)
		}, OK, "CPU 3"},
		"AppArmor, without a node": {"apparmor", writes("sys/module/apparmor/parameters/enabled", "Y\n"), OK, "on"},
		"no state":                 {"state", func(f *fixture) { f.remove("run/candor") }, OK, "does not exist yet"},
		"state of others":          {"state", writes("run/candor/state.json", stateFile), OK, "0 containers"},
		"state with a feature":     {"state", writes("run/candor/state.json", stateWithFeature), OK, "the feature helpers is in use (containers: 1, such as web): releases without this feature refuse the state"},
		"service of the views": {"view-refresh", func(f *fixture) {
			f.remove("proc/10")
			f.folder("sys/fs/cgroup/system.slice/candor-view.service")
		}, OK, "candor-view.service runs"},
		"no runtimes of Candor": {"view-refresh", func(f *fixture) {
			f.remove("proc/10")
			f.remove("etc/docker")
			f.remove("etc/containers")
		}, OK, "has a runtime of Candor"},
		"no kubelet": {"kubelet-cpu-manager", func(f *fixture) { f.remove("var/lib/kubelet") }, OK, "no kubelet runs"},
		"no engines": {"docker-runtimes", func(f *fixture) { f.remove("usr/bin"); f.remove("etc/docker") }, OK, "not installed"},
		"Docker's containerd": {"runtime-version", func(f *fixture) {
			f.noContainerd()
			f.program("opt/containerd", "x")
			f.process(9, "opt/containerd", "--config", "/run/docker/containerd/containerd.toml")
		}, OK, "no containerd"},
		"NRI off, not for NRI": {"nri-enabled", func(f *fixture) {
			writes(configTOML, nriTable+"disable = true\n")(f)
			f.remove("var/lib/kubelet")
			f.remove("etc/candor/nri.yaml")
			f.remove("proc/10")
		}, Warning, "NRI is off"},
		"required, before 2.2": {"nri-required-plugins", func(f *fixture) { f.program("usr/bin/containerd", "containerd 2.1.0"); f.write(configTOML, nriTable) }, OK, "has no such setting"},
		"agent in a pod": {"agent-version", func(f *fixture) {
			f.write("proc/10/cgroup", "0::/kubepods/pod0a1b2c3d-0a1b-4c2d-9e3f-0a1b2c3d4e5f/x\n")
		}, OK, "no candor nri"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			test.set(f)
			if row := f.row(test.id); row.Status != test.status || !strings.Contains(row.Found, test.found) {
				t.Errorf("%+v; want %s, %q", row, test.status, test.found)
			}
		})
	}
}

// TestUnreadable: for a user without rights a file of root is unknown, for root it is the error of the check.
func TestUnreadable(t *testing.T) {
	refusal := &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission}
	user, root := &System{uid: 1000}, &System{}
	if f := user.unreadable(refusal, Failed, "x"); f.status != Unknown || f.next != "run candor doctor as root" {
		t.Errorf("%+v", f)
	}
	if f := root.unreadable(refusal, Failed, "x"); f.status != Failed {
		t.Errorf("%+v", f)
	}
	if f := user.unreadable(errors.New("bad"), Failed, "x"); f.status != Failed {
		t.Errorf("%+v", f)
	}
}

// TestHostileText: a finding with control characters and of any length becomes a bounded line.
func TestHostileText(t *testing.T) {
	if text := clean("a\nb\x1b[2J" + strings.Repeat("é", maxText)); strings.ContainsAny(text, "\n\x1b") || len(text) > maxText+10 || !strings.HasPrefix(text, "a b [2J") {
		t.Errorf("%q", text)
	}
}

// TestReadsOnly: the checks change no file, and this machine takes less than 2 s.
func TestReadsOnly(t *testing.T) {
	f := newFixture(t)
	before := files(t, f.Root)
	Run(f.System, nil)
	if after := files(t, f.Root); !slices.Equal(before, after) {
		t.Errorf("%q\nbefore: %q", after, before)
	}
	start := time.Now()
	r := Run(New("/"), nil)
	if took := time.Since(start); took > 2*time.Second || len(r.Checks) != len(IDs()) {
		t.Errorf("%v, %d checks", took, len(r.Checks))
	}
}

// TestSlowPrograms: programs that do not end, or almost as late as they may, cannot delay the checks. Without runLimit, the programs
// of this machine take 10 s. The bound is far above runLimit, because the checks also take time of their own on a busy machine.
func TestSlowPrograms(t *testing.T) {
	const bound = 6 * time.Second
	for _, slow := range []string{"exec sleep 30\n", "sleep 0.33; echo candor v1.2.3\n"} {
		f := newFixture(t)
		f.For = UseNRI
		for _, name := range []string{"runc", "containerd", "crio"} {
			f.write("usr/bin/"+name, "#!/bin/sh\n"+slow)
		}
		for pid := range 30 {
			file := fmt.Sprintf("usr/local/bin/%d/candor", pid)
			f.program(file, "")
			f.process(100+pid, file, "nri")
			f.write(file, "#!/bin/sh\n"+slow)
			f.process(200+pid, "usr/bin/containerd")
		}
		f.secondRuntime("systemd")
		start := time.Now()
		Run(f.System, nil)
		if took := time.Since(start); took > bound {
			t.Errorf("%q: the checks took %v", slow, took)
		}
	}
}

// TestManyNames: a directory with any number of files is read up to a bound.
func TestManyNames(t *testing.T) {
	f := newFixture(t)
	for i := range maxNames + 10 {
		f.write(fmt.Sprintf("run/many/%d", i), "")
	}
	if names, err := f.names("run/many"); len(names) != maxNames || err != nil {
		t.Errorf("%d names, %v", len(names), err)
	}
	if names, err := f.names("run/nri-none"); len(names) != 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%q, %v", names, err)
	}
}

// files returns the paths, sizes and times of all files below a directory.
func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			list = append(list, fmt.Sprint(path, info.Size(), info.Mode(), info.ModTime().UnixNano()))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var section = regexp.MustCompile("(?m)^### `([a-z-]+)`$")

// TestDocs: docs/doctor.md has a section for each check, in the order of the table.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, match := range section.FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, match[1])
	}
	if !slices.Equal(documented, IDs()) {
		t.Errorf("docs/doctor.md has the sections\n%q\nwant\n%q", documented, IDs())
	}
}

func (f *fixture) chmod(name string, mode fs.FileMode) {
	f.Helper()
	if err := os.Chmod(f.path(name), mode); err != nil {
		f.Fatal(err)
	}
}

// late sets the modification time of a file to after the start of all processes.
func (f *fixture) late(name string) {
	f.Helper()
	at := time.Now().Add(time.Hour)
	f.age()
	if err := os.Chtimes(f.path(name), at, at); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) append(name, text string) {
	f.Helper()
	before, err := os.ReadFile(f.path(name))
	if err != nil {
		f.Fatal(err)
	}
	f.write(name, string(before)+text)
}

func (f *fixture) space(bytes, inodes uint64) {
	f.freeSpace = func(string) (uint64, uint64, error) { return bytes, inodes, nil }
}

// v1 replaces cgroup v2 by cgroup v1 without a burst.
func (f *fixture) v1() {
	f.Helper()
	f.write(mountinfo1, "30 1 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n31 1 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n")
	f.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
}

func (f *fixture) noContainerd() {
	f.Helper()
	f.remove("usr/bin/containerd")
	f.remove("proc/9")
}

// crio replaces containerd by a CRI-O of a version, with a file of its configuration.
func (f *fixture) crio(version, config string) {
	f.Helper()
	f.noContainerd()
	f.program("usr/bin/crio", "crio version "+version)
	f.process(9, "usr/bin/crio")
	f.write("etc/crio/crio.conf", "[crio.nri]\nenable_nri = true\n")
	f.write("etc/crio/crio.conf.d/10-x.conf", config)
}

// secondRuntime adds a CRI-O with a cgroup manager beside containerd.
func (f *fixture) secondRuntime(manager string) {
	f.Helper()
	f.program("usr/bin/crio", "crio version 1.34.0")
	f.process(12, "usr/bin/crio")
	f.write("etc/crio/crio.conf", "[crio.nri]\nenable_nri = true\n[crio.runtime]\ncgroup_manager = '"+manager+"'\n")
}

// crd returns the schema of the chart's CRD as JSON.
func (f *fixture) crd() string {
	f.Helper()
	return crdOfChart(f.T)
}

// cluster gives the system an API server with a schema of the CRD and with workloads of a version. "": no CRD.
func (f *fixture) cluster(schema, version string) {
	f.Helper()
	workload := func(name string) string {
		return fmt.Sprintf(`{"items":[{"metadata":{"name":%q,"labels":{"app.kubernetes.io/version":%q}}}]}`, name, version)
	}
	s := apitest.Serve(f.T, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/nodecpus.candor.dev") && schema != "":
			fmt.Fprintf(w, `{"spec":{"versions":[{"name":"v1alpha1","served":true,"schema":{"openAPIV3Schema":%s}}]}}`, schema)
		case r.URL.Path == "/apis/apps/v1/daemonsets" && r.URL.Query().Get("labelSelector") == "app.kubernetes.io/name=candor":
			fmt.Fprint(w, workload("candor"))
		case r.URL.Path == "/apis/apps/v1/deployments" && r.URL.Query().Get("labelSelector") == "app.kubernetes.io/name=candor-scheduler":
			fmt.Fprint(w, workload("candor-scheduler"))
		default:
			http.NotFound(w, r)
		}
	})
	file := apitest.Write(f.T, f.TempDir(), "kubeconfig", apitest.Kubeconfig(s.URL, apitest.Trust(s), "token: x"))
	client, err := apiserver.New(apiserver.Options{Kubeconfig: file, Patience: time.Second})
	if err != nil {
		f.Fatal(err)
	}
	f.Connect = func() (*apiserver.Client, error) { return client, nil }
}
