package nri

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/candor-project/candor/cpuset"
)

// TestFindRuntimes: the runtime of a process of root has the settings of its files; a later file overrides an earlier one.
func TestFindRuntimes(t *testing.T) {
	on, off := true, false
	const imports = "imports = ['conf.d/*.toml']\nversion = 3\n[plugins.'io.containerd.nri.v1.nri']\ndisable = true\nsocket_path = '/run/a.sock'\n"
	for name, test := range map[string]struct {
		files map[string]string
		words []string
		want  Runtime
	}{
		"defaults": {nil, []string{"/usr/bin/containerd"},
			Runtime{Name: Containerd, File: "/etc/containerd/config.toml", Socket: DefaultSocket, PluginDir: "/opt/nri/plugins"}},
		"import": {map[string]string{"etc/containerd/config.toml": imports,
			"etc/containerd/conf.d/x.toml": "[plugins.'io.containerd.nri.v1.nri']\ndisable = false\nplugin_request_timeout = '3s'\n"},
			[]string{"/usr/bin/containerd"},
			Runtime{Name: Containerd, File: "/etc/containerd/config.toml", Socket: "/run/a.sock", PluginDir: "/opt/nri/plugins", Enabled: &on, RequestTimeout: 3 * time.Second}},
		"default runtime": {map[string]string{"srv/c.toml": "[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'crun'\n" +
			"[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.crun.options]\nSystemdCgroup = true\n" + validatorOnly},
			[]string{"/usr/bin/containerd", "--config", "c.toml"},
			Runtime{Name: Containerd, File: "/srv/c.toml", Socket: DefaultSocket, PluginDir: "/opt/nri/plugins", SystemdCgroup: true, Required: []string{"topo"}}},
		"CRI-O": {map[string]string{"etc/crio/crio.conf": "[crio.nri]\nenable_nri = true\nnri_listen = '/run/c.sock'\n[crio.runtime]\ncgroup_manager = 'cgroupfs'\n",
			"etc/crio/crio.conf.d/1": "[crio.nri]\nenable_nri = false\nnri_plugin_dir = '/p'\nnri_disable_connections = true\nnri_plugin_request_timeout = '1s'\n"},
			[]string{"/usr/bin/crio"},
			Runtime{Name: CRIO, File: "/etc/crio/crio.conf", Socket: "/run/c.sock", PluginDir: "/p", Enabled: &off, NoConnections: true, RequestTimeout: time.Second}},
	} {
		m := newMachine(t)
		for file, text := range test.files {
			m.write(file, text)
		}
		m.stat("9")
		m.process("9", test.words...)
		m.old()
		found, unclear := FindRuntimes(m.root)
		if len(found) != 1 || unclear != nil {
			t.Errorf("%s: %+v, %v", name, found, unclear)
			continue
		}
		got := found[0]
		if got.PID != 9 || !strings.HasSuffix(got.Program, "proc/9/exe") {
			t.Errorf("%s: process %d, program %s", name, got.PID, got.Program)
		}
		got.PID, got.Program = 0, ""
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, got, test.want)
		}
	}
}

const validatorOnly = "[plugins.'io.containerd.nri.v1.nri'.default_validator]\nenable = true\nrequired_plugins = ['topo']\n"

// stat adds the file from which the start time of a process is read.
func (m *machine) stat(pid string) {
	m.Helper()
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		m.Fatal(err)
	}
	m.write("proc/"+pid+"/stat", string(text))
}

// TestNoRuntime: a process is no runtime if a tenant could have started it, or if Docker has.
func TestNoRuntime(t *testing.T) {
	for name, p := range map[string]fakeProcess{
		"another user":    {comm: "containerd", uids: "1000\t1000\t1000\t1000"},
		"in a pod":        {comm: "containerd", cgroup: "0::/kubepods/pod" + podID + "/" + longID + "\n"},
		"in a container":  {comm: "containerd", cgroup: "0::/docker/" + longID + "\n"},
		"another program": {comm: "containerd", exe: "/usr/bin/sleep"},
	} {
		m := newMachine(t)
		m.stat("9")
		m.add("9", p, "/usr/bin/containerd")
		if found, unclear := FindRuntimes(m.root); len(found) != 0 || unclear != nil {
			t.Errorf("%s: %+v, %v", name, found, unclear)
		}
	}
	m := newMachine(t)
	m.containerd("--config", "/run/docker/containerd/containerd.toml")
	m.add("10", fakeProcess{comm: "crio", hidden: true}, "/usr/bin/crio")
	if found, unclear := FindRuntimes(m.root); len(found) != 0 || unclear == nil || !strings.Contains(unclear.Error(), "process 10 (crio)") {
		t.Errorf("%+v, %v", found, unclear)
	}
}

// TestReadKubelets: flags override files, the last file counts, and a kubelet that does not run has the settings of its files.
func TestReadKubelets(t *testing.T) {
	const file = "kind: KubeletConfiguration\ncpuManagerPolicy: none\ncgroupDriver: systemd\nsystemReserved: {cpu: 250m}\nkubeReserved: {cpu: 1, memory: 1Gi}\n"
	for name, test := range map[string]struct {
		set     func(*machine)
		want    []KubeletSettings
		unclear string
	}{
		"none": {func(*machine) {}, nil, ""},
		"installed": {func(m *machine) { m.write("var/lib/kubelet/config.yaml", file) },
			[]KubeletSettings{{Dir: "/var/lib/kubelet", Policy: "none", PolicyFrom: "/var/lib/kubelet/config.yaml", CgroupDriver: "systemd", Reserved: 1250}}, ""},
		"flags": {func(m *machine) {
			m.write("etc/k.yaml", file)
			m.process("7", "/usr/bin/kubelet", "--config=/etc/k.yaml", "--cgroup-driver", "cgroupfs", "--system-reserved=memory=1Gi,cpu=500m")
		}, []KubeletSettings{{PID: "7", Dir: "/var/lib/kubelet", Policy: "none", PolicyFrom: "/etc/k.yaml", CgroupDriver: "cgroupfs", Reserved: 1500}}, ""},
		"CPUs": {func(m *machine) {
			m.write("etc/k.yaml", file+"reservedSystemCPUs: 0,1\n")
			m.process("7", "/usr/bin/kubelet", "--config=/etc/k.yaml")
		}, []KubeletSettings{{PID: "7", Dir: "/var/lib/kubelet", Policy: "none", PolicyFrom: "/etc/k.yaml", CgroupDriver: "systemd", Reserved: 2000, ReservedCPUs: cpuset.MustParse("0-1")}}, ""},
		"unreadable": {func(m *machine) { m.write("var/lib/k0s", "") }, nil, "/var/lib/k0s/kubelet/config.yaml: not a directory"},
		"bad amount": {func(m *machine) { m.process("7", "/usr/bin/kubelet", "--kube-reserved=cpu=x") },
			[]KubeletSettings{{PID: "7", Dir: "/var/lib/kubelet", Policy: "none"}}, `kube-reserved: CPU amount "x"`},
	} {
		m := newMachine(t)
		test.set(m)
		found, unclear := ReadKubelets(m.root)
		if !reflect.DeepEqual(found, test.want) || (unclear != nil) != (test.unclear != "") || unclear != nil && !strings.Contains(unclear.Error(), test.unclear) {
			t.Errorf("%s: got\n%+v, %v\nwant\n%+v", name, found, unclear, test.want)
		}
	}
}

// TestAgents: an agent of the node is a process of candor nri that root runs outside of pods.
func TestAgents(t *testing.T) {
	m := newMachine(t)
	m.process("20", "/usr/bin/candor", "nri")
	m.process("21", "/usr/bin/candor", "run")
	m.add("22", fakeProcess{uids: "1000\t1000\t1000\t1000"}, "/usr/bin/candor", "nri")
	m.add("23", fakeProcess{cgroup: "0::/kubepods/pod" + podID + "/" + longID + "\n"}, "/usr/bin/candor", "nri")
	m.add("24", fakeProcess{exe: "/usr/bin/sleep"}, "/usr/bin/candor", "nri")
	if pids, unclear := Agents(m.root); !reflect.DeepEqual(pids, []int{20}) || unclear != nil {
		t.Errorf("%v, %v", pids, unclear)
	}
	m.add("25", fakeProcess{hidden: true}, "/usr/bin/candor", "nri")
	if pids, unclear := Agents(m.root); len(pids) != 1 || unclear == nil || !strings.Contains(unclear.Error(), "process 25 (candor)") {
		t.Errorf("%v, %v", pids, unclear)
	}
}

// FuzzRuntimeConfig: no configuration makes the readers panic, and errors are single lines.
func FuzzRuntimeConfig(f *testing.F) {
	f.Add([]byte(validatorOn))
	f.Add([]byte("[crio.nri]\nenable_nri = true\nnri_plugin_request_timeout = '1s'\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/c", text, 0o644); err != nil {
			t.Fatal(err)
		}
		r := Runtime{}
		if err := r.readCRIOFile(dir, "/c", time.Now()); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
		var c containerdNRI
		if toml.Unmarshal(text, &c) == nil {
			if err := r.addContainerd(&c); err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}
