package nri

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine is the part of a file system with processes that CheckKubelet and required read.
type machine struct {
	*testing.T
	root string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	return &machine{t, t.TempDir()}
}

func (m *machine) write(name, text string) {
	m.Helper()
	file := filepath.Join(m.root, name)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o644)
	}
	if err != nil {
		m.Fatal(err)
	}
}

func (m *machine) link(to, name string) {
	m.Helper()
	file := filepath.Join(m.root, name)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.Symlink(to, file)
	}
	if err != nil {
		m.Fatal(err)
	}
}

// fakeProcess is the part of a process that findKubelets reads. Empty fields have the values of a kubelet
// that systemd started.
type fakeProcess struct {
	comm, exe, uids, pids, cgroup string
	hidden                        bool // no ptrace rights: cwd, exe, root and ns are not readable
}

// process adds a process with the working directory /srv and the root directory of the machine.
func (m *machine) process(pid string, words ...string) {
	m.Helper()
	m.add(pid, fakeProcess{}, words...)
}

func (m *machine) add(pid string, p fakeProcess, words ...string) {
	m.Helper()
	dir := "proc/" + pid
	file, _, _ := strings.Cut(words[0], " ")
	m.write(dir+"/cmdline", strings.Join(words, "\x00")+"\x00")
	m.write(dir+"/status", "Name:\t"+cmp.Or(p.comm, filepath.Base(file))+"\nUid:\t"+cmp.Or(p.uids, "0\t0\t0\t0")+"\nNSpid:\t"+cmp.Or(p.pids, pid)+"\n")
	m.write(dir+"/cgroup", cmp.Or(p.cgroup, "0::/system.slice/kubelet.service\n"))
	if p.hidden { // reading fails, like without ptrace rights
		m.link("root", dir+"/root")
		m.write(dir+"/exe", "")
		return
	}
	m.link("../..", dir+"/root")
	m.link("/srv", dir+"/cwd")
	m.link(cmp.Or(p.exe, "/usr/bin/"+filepath.Base(file)), dir+"/exe")
}

const (
	state        = `{"policyName":"POLICY","defaultCpuSet":"0-3","entries":{"u":{"c":"4"}},"checksum":1353318690}`
	kubeletYAML  = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: POLICY\nport: 10250\n"
	usualState   = "var/lib/kubelet/cpu_manager_state"
	hides        = "cannot read the program file of process 7"
	withoutField = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	podID        = "0a1b2c3d-0a1b-4c2d-9e3f-0a1b2c3d4e5f"
)

var longID = strings.Repeat("0a1b", 16)

func with(text, policy string) string { return strings.Replace(text, "POLICY", policy, 1) }

// kubeletCase is a machine and the expected result of CheckKubelet.
type kubeletCase struct {
	set     func(*machine)
	policy  string // policy in the error; "" if CheckKubelet returns no error
	from    string // file or process in the error
	unclear string // text of the unclear finding; "" if there is none
}

func (test kubeletCase) check(t *testing.T) {
	m := newMachine(t)
	test.set(m)
	unclear, err := CheckKubelet(m.root)
	if errors.Is(err, ErrOtherManager) != (test.policy != "") || (err == nil) != (test.policy == "") {
		t.Fatalf("%v, %v", unclear, err)
	}
	if err != nil && (!strings.Contains(err.Error(), test.from) || !strings.Contains(err.Error(), `"`+test.policy+`"`) || strings.Contains(err.Error(), m.root)) {
		t.Errorf("%v", err)
	}
	if (unclear != nil) != (test.unclear != "") {
		t.Fatalf("unclear: %v; want %q", unclear, test.unclear)
	}
	if unclear != nil && (!strings.Contains(unclear.Error(), test.unclear) || strings.ContainsAny(unclear.Error(), "\n\x1b") || len(unclear.Error()) > 1000) {
		t.Errorf("unclear: %v; want %q", unclear, test.unclear)
	}
}

// TestCheckKubelet: the policy comes from the state file of a running kubelet, then from its flags, then from
// its configuration.
func TestCheckKubelet(t *testing.T) {
	runs := func(words ...string) func(*machine) {
		return func(m *machine) { m.Helper(); m.process("7", append([]string{"/usr/bin/kubelet"}, words...)...) }
	}
	both := func(text string, words ...string) func(*machine) {
		return func(m *machine) { m.Helper(); m.write(usualState, text); runs(words...)(m) }
	}
	for name, test := range map[string]kubeletCase{
		"nothing":               {set: func(*machine) {}},
		"no kubelet, none":      {set: func(m *machine) { m.write(usualState, with(state, "none")) }},
		"no kubelet, static":    {set: func(m *machine) { m.write(usualState, with(state, "static")) }, policy: "static", from: "/" + usualState},
		"no kubelet, broken":    {set: func(m *machine) { m.write(usualState, "{") }, unclear: "/" + usualState + ": "},
		"state none":            {set: both(with(state, "none"))},
		"state static":          {set: both(with(state, "static")), policy: "static", from: "/" + usualState},
		"state before flag":     {set: both(with(state, "none"), "--cpu-manager-policy=static")},
		"state against flag":    {set: both(with(state, "static"), "--cpu-manager-policy=none"), policy: "static", from: "/" + usualState},
		"state of a fork":       {set: both(with(state, "dynamic")), policy: "dynamic", from: "/" + usualState},
		"state of version 4":    {set: both(`{"policyName":"static","defaultCpuSet":"","checksum":1,"data":"{}","dataChecksum":2}`), policy: "static", from: "/" + usualState},
		"state broken":          {set: both(`{"policyName":`), unclear: "/" + usualState + ": "},
		"state broken and flag": {set: both(`{`, "--cpu-manager-policy=static"), policy: "static", from: "process 7", unclear: "/" + usualState + ": "},
		"state with a bad name": {set: both(with(state, "a\\nb")), unclear: `policy "a\nb": must be a name`},
		"state incomplete":      {set: both(`{"policyName":"static"}`), unclear: "must be a kubelet's cpu_manager_state"},
		"state a directory":     {set: func(m *machine) { m.write(usualState+"/x", ""); runs()(m) }, unclear: "not a plain file"},
		"state a link": {set: func(m *machine) {
			m.write("tmp/state", with(state, "static"))
			m.link("/tmp/state", usualState)
			runs()(m)
		}, unclear: "/" + usualState + ": too many levels"},
		"state writable by a group": {set: func(m *machine) {
			both(with(state, "static"))(m)
			if err := os.Chmod(filepath.Join(m.root, usualState), 0o664); err != nil {
				m.Fatal(err)
			}
		}, unclear: "must be writable by root only"},
		"state in a linked directory": {set: func(m *machine) { // the link ends in the kubelet's root directory, as on MicroK8s
			m.write("var/snap/k/cpu_manager_state", with(state, "static"))
			m.link("/var/snap/k", "var/lib/kubelet")
			runs()(m)
		}, policy: "static", from: "/" + usualState},
		"flag":                        {set: runs("--cpu-manager-policy=static"), policy: "static", from: "process 7"},
		"flag and value apart":        {set: runs("--cpu_manager_policy", "static"), policy: "static", from: "process 7"},
		"last flag":                   {set: runs("--cpu-manager-policy=static", "--cpu-manager-policy=none")},
		"flag with a bad name":        {set: runs("--cpu-manager-policy=\x1b[2J\n" + strings.Repeat("x", 10_000)), unclear: "--cpu-manager-policy of process 7: policy "},
		"hyperkube":                   {set: func(m *machine) { m.process("7", "hyperkube", "kubelet", "--cpu-manager-policy=static") }, policy: "static", from: "process 7"},
		"another program":             {set: func(m *machine) { m.process("7", "vi", "kubelet", "--cpu-manager-policy=static") }},
		"flag after the end of flags": {set: runs("--", "/bin/ls", "--cpu-manager-policy=static")},
		"flag, hidden": {set: func(m *machine) {
			m.add("7", fakeProcess{hidden: true}, "kubelet", "--cpu-manager-policy=static")
		}, unclear: hides},
		"state, hidden": {set: func(m *machine) {
			m.write(usualState, with(state, "static"))
			m.add("7", fakeProcess{hidden: true}, "kubelet")
		}, policy: "static", from: "/" + usualState, unclear: hides},
		"file": {set: func(m *machine) {
			m.write("etc/k.yaml", with(kubeletYAML, "static"))
			runs("--config=/etc/k.yaml")(m)
		}, policy: "static", from: "/etc/k.yaml"},
		"file by relative path": {set: func(m *machine) {
			m.write("srv/k.yaml", with(kubeletYAML, "static"))
			runs("--config", "k.yaml")(m)
		}, policy: "static", from: "/srv/k.yaml"},
		"flag before file": {set: func(m *machine) {
			m.write("etc/k.yaml", with(kubeletYAML, "static"))
			runs("--config=/etc/k.yaml", "--cpu-manager-policy=none")(m)
		}},
		"last file of the directory": {set: func(m *machine) {
			m.write("etc/k.yaml", with(kubeletYAML, "none"))
			m.write("data/k.d/10.conf", with(kubeletYAML, "none"))
			m.write("data/k.d/20/a.conf", with(kubeletYAML, "static"))
			m.write("data/k.d/30.conf", withoutField)
			m.write("data/k.d/99.yaml", with(kubeletYAML, "none"))
			m.link("/data/k.d", "etc/k.d")
			runs("--config=/etc/k.yaml", "--config-dir=/etc/k.d")(m)
		}, policy: "static", from: "/etc/k.d/20/a.conf"},
		"too many files": {set: func(m *machine) {
			for i := range mostFiles + 2 {
				m.write(fmt.Sprintf("etc/k.d/%d.conf", i), withoutField)
			}
			runs("--config-dir=/etc/k.d")(m)
		}, unclear: "/etc/k.d: more than 100 files"},
		"file missing": {set: runs("--config=/etc/k.yaml"), unclear: "/etc/k.yaml: "},
		"file no YAML": {set: func(m *machine) {
			m.write("etc/k.yaml", "kind: [\n")
			runs("--config=/etc/k.yaml")(m)
		}, unclear: "/etc/k.yaml: yaml"},
		"another directory": {set: func(m *machine) {
			m.write(usualState, with(state, "static")) // left by a kubelet that does not run
			m.write("srv/kubelet/cpu_manager_state", with(state, "none"))
			runs("--root-dir=kubelet")(m)
		}},
		"state of another directory": {set: func(m *machine) {
			m.write("data/k/cpu_manager_state", with(state, "static"))
			runs("--root-dir", "/data/k")(m)
		}, policy: "static", from: "/data/k/cpu_manager_state"},
	} {
		t.Run(name, test.check)
	}
}

// TestKubeletOfNode: a process counts as the node's kubelet only by facts that a tenant cannot forge. A
// matching name is not enough.
func TestKubeletOfNode(t *testing.T) {
	static := "--cpu-manager-policy=static"
	in := func(p fakeProcess, words ...string) func(*machine) {
		if len(words) == 0 {
			words = []string{"/usr/bin/kubelet", static}
		}
		return func(m *machine) { m.Helper(); m.add("7", p, words...) }
	}
	group := func(path string) func(*machine) { return in(fakeProcess{cgroup: "0::" + path + "\n"}) }
	escaped := strings.ReplaceAll(podID, "-", "_")
	for name, test := range map[string]kubeletCase{
		"another user":                {set: in(fakeProcess{uids: "65534\t65534\t65534\t65534"})},
		"set-user-ID program":         {set: in(fakeProcess{uids: "1000\t0\t0\t0"})},
		"inner pid namespace":         {set: in(fakeProcess{pids: "7\t1"})}, // a node of kind, or a pod
		"pod, systemd":                {set: group("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + escaped + ".slice/cri-containerd-" + longID + ".scope")},
		"pod, cgroupfs":               {set: group("/kubepods/besteffort/pod" + podID + "/" + longID)},
		"pod, kind":                   {set: group("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + escaped + ".slice/x")},
		"pod, static":                 {set: group("/x/pod" + longID[:32] + "/y")},
		"pod, cgroup namespace":       {set: group("/../../pod" + podID + "/" + longID)},
		"pod, CRI-O":                  {set: group("/kubepods.slice/kubepods-pod" + escaped + ".slice/crio-" + longID + ".scope/container")},
		"pod, cgroup v1":              {set: in(fakeProcess{cgroup: "3:cpuset:/kubepods/pod" + podID + "/x\n2:cpu,cpuacct:/\n0::/\n"})},
		"Docker with the host's pids": {set: group("/docker/" + longID), unclear: "process 7 (kubelet) runs in a container"},
		"Podman with the host's pids": {set: group("/machine.slice/libpod-" + longID + ".scope/container"), unclear: "runs in a container"},
		"argv of another program":     {set: in(fakeProcess{comm: "sudo", exe: "/usr/bin/sudo"}), unclear: `process 7 has the command line of kubelet and is "sudo"`},
		"comm and argv, another file": {set: in(fakeProcess{exe: "/usr/bin/su"}), unclear: `is "su"`},
		"comm that hurts a terminal":  {set: in(fakeProcess{comm: "\x1b[2J\x1b]0;PWN"}), unclear: `is "\x1b[2J\x1b]0;PWN"`},
		"kubelet of a service":        {set: in(fakeProcess{}), policy: "static", from: "process 7"},
		"kubelet, file removed":       {set: in(fakeProcess{exe: "/usr/bin/kubelet (deleted)"}), policy: "static", from: "process 7"},
		"kubelet of a shell":          {set: group("/user.slice/user-0.slice/session-1.scope"), policy: "static", from: "process 7"},
		"kubelet, cgroup namespace":   {set: group("/../../../../system.slice/kubelet.service"), policy: "static", from: "process 7"},
		"Talos":                       {set: in(fakeProcess{cgroup: "0::/podruntime/kubelet\n"}, "/usr/local/bin/kubelet", static), policy: "static", from: "process 7"},
		"RKE2":                        {set: in(fakeProcess{cgroup: "0::/system.slice/rke2-server.service\n"}, "kubelet", static), policy: "static", from: "process 7"},
		"k3s, title":                  {set: k3s("/usr/local/bin/k3s server"), policy: "static", from: "/" + usualState},
		"k3s agent":                   {set: k3s("/usr/local/bin/k3s", "agent"), policy: "static", from: "/" + usualState},
		"k3s, flag of its kubelet":    {set: in(fakeProcess{comm: "k3s-server"}, "k3s", "server", "--kubelet-arg=cpu-manager-policy=static"), policy: "static", from: "process 7"},
		"k3s, flag and value apart":   {set: in(fakeProcess{}, "k3s", "agent", "--kubelet-arg", "cpu-manager-policy=static"), policy: "static", from: "process 7"},
		"k3s, hidden":                 {set: in(fakeProcess{hidden: true}, "k3s server"), unclear: hides},
		"k3s, after the end of flags": {set: in(fakeProcess{comm: "k3s-server"}, "k3s", "server", "--", "--kubelet-arg=cpu-manager-policy=static")},
		"k3s kubectl":                 {set: k3s("/usr/local/bin/k3s", "kubectl")},
		"MicroK8s": {set: func(m *machine) {
			m.write("var/snap/microk8s/common/"+usualState, with(state, "static"))
			in(fakeProcess{}, "/snap/microk8s/7000/kubelite", "--kubelet-args-file=/x")(m)
		}, policy: "static", from: "/var/snap/microk8s/common/" + usualState},
		"many kubelets in containers": {set: func(m *machine) {
			for i := range 1000 {
				m.add(fmt.Sprint(100+i), fakeProcess{cgroup: "0::/docker/" + longID + "\n"}, "kubelet", static)
			}
		}, unclear: "and 997 more"},
		"kind, seen from inside": {set: func(m *machine) { // cgroup v1 shows the paths of the outer machine
			node := "/kubepods/pod" + podID + "/" + longID + "/docker/" + longID
			m.write("proc/self/cgroup", "5:cpuset:"+node+"/kubelet/kubepods/pod"+podID+"/"+longID+"\n")
			in(fakeProcess{cgroup: "5:cpuset:" + node + "/kubelet\n"})(m)
		}, policy: "static", from: "process 7"},
		"pod of kind, seen from inside": {set: func(m *machine) {
			node := "/docker/" + longID + "/kubelet"
			m.write("proc/self/cgroup", "5:cpuset:"+node+"/kubepods/burstable/pod"+podID+"/"+longID+"\n")
			in(fakeProcess{cgroup: "5:cpuset:" + node + "/kubepods/burstable/pod" + strings.Replace(podID, "0", "f", 1) + "/" + longID + "\n"})(m)
		}},
		"another user namespace": {set: func(m *machine) {
			m.link("user:[1]", "proc/self/ns/user")
			m.link("user:[2]", "proc/7/ns/user")
			in(fakeProcess{})(m)
		}},
		"this user namespace": {set: func(m *machine) {
			m.link("user:[1]", "proc/self/ns/user")
			m.link("user:[1]", "proc/7/ns/user")
			in(fakeProcess{})(m)
		}, policy: "static", from: "process 7"},
	} {
		t.Run(name, test.check)
	}
}

// TestKubeletState: a kubelet can start after the plugin. CheckKubelet therefore reads its state file in each
// known directory if no kubelet runs.
func TestKubeletState(t *testing.T) {
	for _, dir := range []string{"var/lib/kubelet", "var/snap/microk8s/common/var/lib/kubelet", "var/lib/k0s/kubelet"} {
		file := dir + "/cpu_manager_state"
		set := func(policy string) func(*machine) {
			return func(m *machine) { m.Helper(); m.write(file, with(state, policy)) }
		}
		doubtful := func(m *machine) {
			set("static")(m)
			if err := os.Chmod(filepath.Join(m.root, file), 0o666); err != nil {
				m.Fatal(err)
			}
		}
		for name, test := range map[string]kubeletCase{
			"none":              {set: set("none")},
			"static":            {set: set("static"), policy: "static", from: "set cpuManagerPolicy: none and remove /" + file},
			"writable by users": {set: doubtful, unclear: fmt.Sprintf("/%s: owner %d, mode 0666", file, os.Geteuid())},
			"broken":            {set: func(m *machine) { m.write(file, "{") }, unclear: "/" + file + ": "},
			"linked": {set: func(m *machine) {
				m.write("tmp/state", with(state, "static"))
				m.link("/tmp/state", file)
			}, unclear: "/" + file + ": too many levels"},
			"another kubelet runs": {set: func(m *machine) {
				set("static")(m)
				m.process("7", "kubelet", "--root-dir=/srv")
			}},
			"a tenant's kubelet runs": {set: func(m *machine) {
				set("static")(m)
				m.add("7", fakeProcess{uids: "1\t1\t1\t1"}, "kubelet", "--root-dir=/srv")
			}, policy: "static", from: "/" + file},
		} {
			t.Run(dir+" "+name, test.check)
		}
	}
}

// TestKubeletWatchRechecks: a running plugin detects that the policy of a kubelet changed, and reports the
// change once.
func TestKubeletWatchRechecks(t *testing.T) {
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	m, watch := newMachine(t), &kubeletWatch{}
	file := "var/snap/microk8s/common/" + usualState
	for _, step := range []struct {
		policy  string
		reports int
	}{{"none", 0}, {"static", 1}, {"static", 1}, {"none", 1}} {
		m.write(file, with(state, step.policy))
		watch.recheck(log, m.root)
		if n := strings.Count(text.String(), "two CPU managers on this node"); n != step.reports {
			t.Errorf("%s: %d reports; want %d:\n%s", step.policy, n, step.reports, &text)
		}
	}
}

// k3s returns a setup function for a node that runs k3s with a command line and has a state file.
func k3s(words ...string) func(*machine) {
	return func(m *machine) {
		m.Helper()
		m.write(usualState, with(state, "static"))
		comm := "k3s-server"
		if len(words) > 1 && words[1] == "kubectl" { // no kubelet runs, so the file is stale
			m.write(usualState, with(state, "none"))
		}
		m.add("7", fakeProcess{comm: comm, exe: "/var/lib/rancher/k3s/data/0a1b/bin/k3s", cgroup: "0::/system.slice/k3s.service\n"}, words...)
	}
}

func FuzzKubeletState(f *testing.F) {
	f.Add([]byte(with(state, "static")))
	f.Fuzz(func(t *testing.T, text []byte) {
		if policy, err := parseState(text); (err == nil) != policyName.MatchString(policy) {
			t.Errorf("%q: %q, %v", text, policy, err)
		}
	})
}

func FuzzKubeletPolicy(f *testing.F) {
	f.Add([]byte(with(kubeletYAML, "static")))
	f.Add([]byte(withoutField))
	f.Fuzz(func(t *testing.T, text []byte) {
		policy, err := parsePolicy(text)
		if policy != "" && (err != nil || !policyName.MatchString(policy)) || err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %q, %v", text, policy, err)
		}
	})
}
