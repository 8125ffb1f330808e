package nri

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A machine is a file system with processes, as far as CheckKubelet and required look at one.
type machine struct {
	*testing.T
	root string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t, t.TempDir()}
	m.link("pid:[1]", "proc/self/ns/pid")
	return m
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

// process is one that runs in /srv, with the machine's file system and pid namespace unless told.
func (m *machine) process(pid, ns string, words ...string) {
	m.Helper()
	dir := "proc/" + pid
	m.write(dir+"/cmdline", strings.Join(words, "\x00")+"\x00")
	m.link("../..", dir+"/root")
	m.link("/srv", dir+"/cwd")
	m.link(ns, dir+"/ns/pid")
}

const (
	state        = `{"policyName":"POLICY","defaultCpuSet":"0-3","entries":{"u":{"c":"4"}},"checksum":1353318690}`
	kubeletYAML  = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: POLICY\nport: 10250\n"
	usual        = "pid:[1]"
	usualState   = "var/lib/kubelet/cpu_manager_state"
	withoutField = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
)

func with(text, policy string) string { return strings.Replace(text, "POLICY", policy, 1) }

func TestCheckKubelet(t *testing.T) {
	for name, test := range map[string]struct {
		set       func(*machine)
		policy    string // "": nothing is refused
		from      string
		isUnclear string // "": all is clear
	}{
		"nothing":         {set: func(*machine) {}},
		"state none":      {set: func(m *machine) { m.write(usualState, with(state, "none")) }},
		"state static":    {set: func(m *machine) { m.write(usualState, with(state, "static")) }, policy: "static", from: "/" + usualState},
		"state of a fork": {set: func(m *machine) { m.write(usualState, with(state, "dynamic")) }, policy: "dynamic", from: "/" + usualState},
		"state of version 4": {set: func(m *machine) {
			m.write(usualState, `{"policyName":"static","defaultCpuSet":"","checksum":1,"data":"{}","dataChecksum":2}`)
		}, policy: "static", from: "/" + usualState},
		"state broken":   {set: func(m *machine) { m.write(usualState, `{"policyName":`) }, isUnclear: "/" + usualState + ": "},
		"state strange":  {set: func(m *machine) { m.write(usualState, with(state, "a\\nb")) }, isUnclear: `policy "a\nb": want a name`},
		"state of else":  {set: func(m *machine) { m.write(usualState, `{"policyName":"static"}`) }, isUnclear: "want a kubelet's cpu_manager_state"},
		"state a folder": {set: func(m *machine) { m.write(usualState+"/x", "") }, isUnclear: "not a plain file"},
		"flag":           {set: func(m *machine) { m.process("7", usual, "/usr/bin/kubelet", "--cpu-manager-policy=static") }, policy: "static", from: "process 7"},
		"flag apart":     {set: func(m *machine) { m.process("7", usual, "kubelet", "--cpu_manager_policy", "static") }, policy: "static", from: "process 7"},
		"last flag": {set: func(m *machine) {
			m.process("7", usual, "kubelet", "--cpu-manager-policy=static", "--cpu-manager-policy=none")
		}},
		"hyperkube": {set: func(m *machine) { m.process("7", usual, "hyperkube", "kubelet", "--cpu-manager-policy=static") }, policy: "static", from: "process 7"},
		"flag of one whose folder is hidden": {set: func(m *machine) {
			m.write("proc/7/cmdline", "kubelet\x00--cpu-manager-policy=static\x00")
		}, policy: "static", from: "process 7"},
		"file of one whose folder is hidden": {set: func(m *machine) {
			m.write("etc/k.yaml", with(kubeletYAML, "static"))
			m.write("proc/7/cmdline", "kubelet\x00--config=/etc/k.yaml\x00")
		}, isUnclear: "/etc/k.yaml: "},
		"another program": {set: func(m *machine) { m.process("7", usual, "vi", "kubelet", "--cpu-manager-policy=static") }},
		"a node inside":   {set: func(m *machine) { m.process("7", "pid:[2]", "kubelet", "--cpu-manager-policy=static") }},
		"file": {set: func(m *machine) {
			m.write("etc/k.yaml", with(kubeletYAML, "static"))
			m.process("7", usual, "kubelet", "--config=/etc/k.yaml")
		}, policy: "static", from: "/etc/k.yaml"},
		"file from its folder": {set: func(m *machine) {
			m.write("srv/k.yaml", with(kubeletYAML, "static"))
			m.process("7", usual, "kubelet", "--config", "k.yaml")
		}, policy: "static", from: "/srv/k.yaml"},
		"flag before file": {set: func(m *machine) {
			m.write("etc/k.yaml", with(kubeletYAML, "static"))
			m.process("7", usual, "kubelet", "--config=/etc/k.yaml", "--cpu-manager-policy=none")
		}},
		"last file of the folder": {set: func(m *machine) {
			m.write("etc/k.yaml", with(kubeletYAML, "none"))
			m.write("etc/k.d/10.conf", with(kubeletYAML, "none"))
			m.write("etc/k.d/20/a.conf", with(kubeletYAML, "static"))
			m.write("etc/k.d/30.conf", withoutField)
			m.write("etc/k.d/99.yaml", with(kubeletYAML, "none"))
			m.process("7", usual, "kubelet", "--config=/etc/k.yaml", "--config-dir=/etc/k.d")
		}, policy: "static", from: "/etc/k.d/20/a.conf"},
		"file missing": {set: func(m *machine) { m.process("7", usual, "kubelet", "--config=/etc/k.yaml") }, isUnclear: "/etc/k.yaml: "},
		"file no YAML": {set: func(m *machine) {
			m.write("etc/k.yaml", "kind: [\n")
			m.process("7", usual, "kubelet", "--config=/etc/k.yaml")
		}, isUnclear: "/etc/k.yaml: yaml"},
		"another folder": {set: func(m *machine) {
			m.write(usualState, with(state, "static")) // of nobody who runs
			m.write("srv/kubelet/cpu_manager_state", with(state, "none"))
			m.process("7", usual, "kubelet", "--root-dir=kubelet")
		}},
		"state of another folder": {set: func(m *machine) {
			m.write("data/k/cpu_manager_state", with(state, "static"))
			m.process("7", usual, "kubelet", "--root-dir", "/data/k")
		}, policy: "static", from: "/data/k/cpu_manager_state"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			test.set(m)
			unclear, err := CheckKubelet(m.root)
			if errors.Is(err, ErrOtherManager) != (test.policy != "") || (err == nil) != (test.policy == "") {
				t.Fatalf("%v, %v", unclear, err)
			}
			if err != nil && (!strings.Contains(err.Error(), test.from) || !strings.Contains(err.Error(), `"`+test.policy+`"`) || strings.Contains(err.Error(), m.root)) {
				t.Errorf("%v", err)
			}
			if (unclear != nil) != (test.isUnclear != "") || unclear != nil && (!strings.Contains(unclear.Error(), test.isUnclear) || strings.Contains(unclear.Error(), "\n")) {
				t.Errorf("unclear: %v; want %q", unclear, test.isUnclear)
			}
		})
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
