package nri

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/program"
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
			Runtime{Name: Containerd, File: "/etc/containerd/config.toml", Socket: DefaultSocket, PluginDir: "/opt/nri/plugins", Endpoint: "/run/containerd/containerd.sock"}},
		"import": {map[string]string{"etc/containerd/config.toml": imports,
			"etc/containerd/conf.d/x.toml": "[plugins.'io.containerd.nri.v1.nri']\ndisable = false\nplugin_request_timeout = '3s'\n"},
			[]string{"/usr/bin/containerd"},
			Runtime{Name: Containerd, File: "/etc/containerd/config.toml", Socket: "/run/a.sock", PluginDir: "/opt/nri/plugins", Endpoint: "/run/containerd/containerd.sock", Enabled: &on, EnabledFile: "/etc/containerd/conf.d/x.toml", RequestTimeout: 3 * time.Second}},
		"default runtime": {map[string]string{"srv/c.toml": "[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = 'crun'\n" +
			"[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.crun.options]\nSystemdCgroup = true\n" + validatorOnly},
			[]string{"/usr/bin/containerd", "--config", "c.toml"},
			Runtime{Name: Containerd, File: "/srv/c.toml", Socket: DefaultSocket, PluginDir: "/opt/nri/plugins", Endpoint: "/run/containerd/containerd.sock", SystemdCgroup: true, HasShortNames: true, Required: []string{"topo"}}},
		"CRI-O": {map[string]string{"etc/crio/crio.conf": "[crio.nri]\nenable_nri = true\nnri_listen = '/run/c.sock'\n[crio.runtime]\ncgroup_manager = 'cgroupfs'\n",
			"etc/crio/crio.conf.d/1": "[crio.nri]\nenable_nri = false\nnri_plugin_dir = '/p'\nnri_disable_connections = true\nnri_plugin_request_timeout = '1s'\n"},
			[]string{"/usr/bin/crio"},
			Runtime{Name: CRIO, File: "/etc/crio/crio.conf", Socket: "/run/c.sock", PluginDir: "/p", Enabled: &off, EnabledFile: "/etc/crio/crio.conf.d/1", NoConnections: true, RequestTimeout: time.Second, Endpoint: "/run/crio/crio.sock"}},
		"disabled plugin": {map[string]string{"etc/containerd/config.toml": "imports = ['conf.d/*.toml']\ndisabled_plugins = ['io.containerd.nri.v1.nri']\n",
			"etc/containerd/conf.d/x.toml": "disabled_plugins = []\n[plugins.'io.containerd.nri.v1.nri']\ndisable = false\n"},
			[]string{"/usr/bin/containerd"},
			Runtime{Name: Containerd, File: "/etc/containerd/config.toml", Socket: DefaultSocket, PluginDir: "/opt/nri/plugins", Enabled: &off, EnabledFile: "/etc/containerd/config.toml", IsListedOff: true, HasShortNames: true,
				Endpoint: "/run/containerd/containerd.sock"}},
		"version 1": {map[string]string{"etc/containerd/config.toml": "disabled_plugins = ['cri']\n[plugins.nri]\ndisable = false\n"},
			[]string{"/usr/bin/containerd"},
			Runtime{Name: Containerd, File: "/etc/containerd/config.toml", Socket: DefaultSocket, PluginDir: "/opt/nri/plugins", Enabled: &on, EnabledFile: "/etc/containerd/config.toml", NoCRI: true, NoCRIFile: "/etc/containerd/config.toml", HasShortNames: true,
				Endpoint: "/run/containerd/containerd.sock"}},
		"short names in version 2": {map[string]string{"etc/containerd/config.toml": "version = 2\n[plugins.nri]\ndisable = false\n"},
			[]string{"/usr/bin/containerd"},
			Runtime{Name: Containerd, File: "/etc/containerd/config.toml", Socket: DefaultSocket, PluginDir: "/opt/nri/plugins", Endpoint: "/run/containerd/containerd.sock"}},
		"connections": {map[string]string{"etc/containerd/config.toml": "imports = ['x.toml']\n[plugins.'io.containerd.nri.v1.nri']\ndisable_connections = true\n",
			"etc/containerd/x.toml": "[plugins.'io.containerd.nri.v1.nri']\ndisable_connections = false\n[grpc]\naddress = '/var/run/x.sock'\n"},
			[]string{"/usr/bin/containerd"},
			Runtime{Name: Containerd, File: "/etc/containerd/config.toml", Socket: DefaultSocket, PluginDir: "/opt/nri/plugins", HasShortNames: true, Endpoint: "/run/x.sock"}},
		"address": {nil, []string{"/usr/bin/containerd", "-a", "/run/k3s/containerd/containerd.sock"},
			Runtime{Name: Containerd, File: "/etc/containerd/config.toml", Socket: DefaultSocket, PluginDir: "/opt/nri/plugins", Endpoint: "/run/k3s/containerd/containerd.sock"}},
		"CRI-O's socket": {map[string]string{"etc/crio/crio.conf": "[crio.api]\nlisten = '/run/a.sock'\n"}, []string{"/usr/bin/crio", "--listen=unix:///run/b.sock"},
			Runtime{Name: CRIO, File: "/etc/crio/crio.conf", Socket: DefaultSocket, PluginDir: "/opt/nri/plugins", SystemdCgroup: true, Endpoint: "/run/b.sock"}},
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
		got.PID, got.Program, got.merged = 0, "", containerdMerge{}
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
		"endpoint": {func(m *machine) {
			m.write("etc/k.yaml", file+"containerRuntimeEndpoint: unix:///var/run/crio/crio.sock\n")
			m.process("7", "/usr/bin/kubelet", "--config=/etc/k.yaml")
		}, []KubeletSettings{{PID: "7", Dir: "/var/lib/kubelet", Policy: "none", PolicyFrom: "/etc/k.yaml", CgroupDriver: "systemd", Reserved: 1250, Endpoint: "/run/crio/crio.sock"}}, ""},
		"endpoint of a flag": {func(m *machine) {
			m.process("7", "/usr/bin/kubelet", "--container-runtime-endpoint", "unix:///run/containerd/containerd.sock")
		}, []KubeletSettings{{PID: "7", Dir: "/var/lib/kubelet", Policy: "none", Endpoint: "/run/containerd/containerd.sock"}}, ""},
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
		if c, err := parseContainerd(text); err == nil {
			if err := r.addContainerd("/c", &c); err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

// TestReadRuntimes: while no runtime runs, the installed runtimes count.
func TestReadRuntimes(t *testing.T) {
	m := newMachine(t)
	for _, name := range []string{"containerd", "crio"} {
		m.write("usr/bin/"+name, "")
		if err := os.Chmod(m.root+"/usr/bin/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	found, unclear := ReadRuntimes(m.root)
	if unclear != nil || len(found) != 2 || found[0].Name != Containerd || found[1].Name != CRIO || found[0].PID != 0 || found[0].Program != m.root+"/usr/bin/containerd" {
		t.Errorf("%+v, %v", found, unclear)
	}
	m.containerd()
	if found, unclear = ReadRuntimes(m.root); unclear != nil || len(found) != 1 || found[0].PID != 9 {
		t.Errorf("%+v, %v", found, unclear)
	}
}

func TestRelease(t *testing.T) {
	for text, want := range map[string]string{
		"containerd 1.6.20": "false false false",
		"containerd 1.7.35": "true false false",
		"containerd 2.1.9":  "true true false",
		"containerd 2.2.0":  "true true true",
		"containerd ?":      "true true true",
		"cri-o 1.25.0":      "false false false",
		"cri-o 1.34.0":      "true true false",
	} {
		name, version, _ := strings.Cut(text, " ")
		v, _ := program.ParseVersion(version)
		r := Release{name, v}
		if got := fmt.Sprint(r.HasNRI(), r.HasNRIOn(), r.HasRequired()); got != want {
			t.Errorf("%s: NRI, on, required: %s, want %s", text, got, want)
		}
	}
}
