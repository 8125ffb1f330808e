package doctor

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A fixture is the directory of a machine on which every check is ok: cgroup v2, containerd 2.4 with candor nri, a kubelet, and
// Docker with Candor's runtimes.
type fixture struct {
	*testing.T
	*System
}

const (
	v2Mount    = "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	containerd = "version = 3\n[plugins.'io.containerd.nri.v1.nri'.default_validator]\n  enable = true\n  required_plugins = ['candor']\n" +
		"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n  runtime_type = 'io.containerd.runc.v2'\n" +
		"  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n    SystemdCgroup = true\n"
	kubeletFile = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: none\ncgroupDriver: systemd\n" +
		"systemReserved: {cpu: 250m, memory: 1Gi}\nkubeReserved: {cpu: 250m}\n"
	podmanFile = "[engine.runtimes]\n\"candor\" = [\"/usr/local/bin/candor-runc\"]\n"
	dockerFile = `{"runtimes": {"candor": {"path": "/usr/local/bin/candor-runc"}, "other": {"path": "/usr/bin/other"}}}`
	socketLine = "0000000000000000: 00000003 00000000 00000000 0001 03 %d /run/nri/nri.sock\n"
	stateFile  = `{"version":2,"boot":"b","grants":[]}`

	stateWithFeature = `{"version":3,"features":["helpers"],"boot":"b","grants":[{"name":"web","state":"running","creator":{"pid":1,"start":2},
		"main":{"pid":3,"start":4},"sinceMs":5,"request":{"class":"sensitive","policy":"strict","limit":1000,"topology":"prefer","periodUs":100000,
		"view":"full","onResize":"none","helpers":"charge","command":"x"},"cpus":"0","exclusive":"0","quota":1000,"weight":1000,"wishKept":true}]}`
)

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir, err := os.MkdirTemp("", "doctor-") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &fixture{t, New(dir)}
	f.StateDir, f.Version = "/run/candor", "v1.2.3"
	f.freeSpace = func(string) (bytes, inodes uint64, err error) { return 100 << 20, 10_000, nil }
	f.kernel()
	f.node()
	return f
}

// kernel writes the files of procfs and sysfs.
func (f *fixture) kernel() {
	f.write("proc/1/mountinfo", v2Mount)
	f.write("proc/sys/kernel/osrelease", "6.18.44\n")
	f.write("proc/sys/fs/inotify/max_user_instances", "128\n")
	f.write("proc/sys/fs/inotify/max_user_watches", "65536\n")
	f.write("proc/net/unix", "Num       RefCount Protocol Flags    Type St Inode Path\n"+
		"0000000000000000: 00000002 00000000 00010000 0001 01 100 /run/nri/nri.sock\n"+fmt.Sprintf(socketLine, 101))
	for name, text := range map[string]string{
		"cgroup.controllers": "cpuset cpu io memory", "cpuset.cpus.effective": "0-3", "cpuset.mems.effective": "0",
		"system.slice/cpu.max": "max 100000", "system.slice/cpu.max.burst": "0",
	} {
		f.write("sys/fs/cgroup/"+name, text+"\n")
	}
	for _, name := range []string{"online", "present", "possible"} {
		f.write("sys/devices/system/cpu/"+name, "0-3\n")
	}
	f.write("sys/devices/system/cpu/isolated", "\n")
	f.folder("sys/devices/system/cpu/cpu0")
}

// node writes the programs, their configuration and their processes.
func (f *fixture) node() {
	f.program("usr/bin/runc", "runc version 1.3.0")
	f.program("usr/bin/containerd", "containerd github.com/containerd/containerd/v2 v2.4.2 abc")
	f.program("usr/bin/dockerd", "Docker version 29.0.0, build 1")
	f.program("usr/bin/podman", "podman version 4.3.1")
	f.program("usr/local/bin/candor-runc", "")
	f.program("usr/local/bin/candor", "candor v1.2.3 (go1.26 linux/amd64)")
	f.write("etc/containerd/config.toml", containerd)
	f.write("etc/docker/daemon.json", dockerFile)
	f.write("etc/containers/containers.conf.d/candor.conf", podmanFile)
	f.write("etc/candor/host.json", `{"reserved":"","minShared":"0","algorithm":"candor","useIsolated":false}`)
	f.write("etc/candor/nri.yaml", "version: 1\n")
	f.write("var/lib/kubelet/config.yaml", kubeletFile)
	f.write("run/candor/state.json", stateFile)
	f.process(9, "usr/bin/containerd")
	f.process(10, "usr/local/bin/candor", "nri")
	f.folder("var/run/nri")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.path("var/run/nri/nri.sock")})
	if err != nil {
		f.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func (f *fixture) write(name, text string) {
	f.Helper()
	f.folder(filepath.Dir(name))
	if err := os.WriteFile(f.path(name), []byte(text), 0o644); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) folder(name string) {
	f.Helper()
	if err := os.MkdirAll(f.path(name), 0o755); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) remove(name string) {
	f.Helper()
	if err := os.RemoveAll(f.path(name)); err != nil {
		f.Fatal(err)
	}
}

// program writes a program that prints a line.
func (f *fixture) program(name, prints string) {
	f.Helper()
	f.write(name, "#!/bin/sh\necho '"+prints+"'\n")
	if err := os.Chmod(f.path(name), 0o755); err != nil {
		f.Fatal(err)
	}
}

// process adds a process of root that runs a program of the fixture.
func (f *fixture) process(pid int, program string, arguments ...string) {
	f.Helper()
	dir := fmt.Sprintf("proc/%d/", pid)
	f.write(dir+"cmdline", strings.Join(append([]string{"/" + program}, arguments...), "\x00")+"\x00")
	f.write(dir+"status", fmt.Sprintf("Name:\t%s\nUid:\t0\t0\t0\t0\nNSpid:\t%d\n", filepath.Base(program), pid))
	f.write(dir+"cgroup", "0::/system.slice/x.service\n")
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.write(dir+"stat", string(stat))
	for name, to := range map[string]string{"root": "../..", "cwd": "/", "exe": f.path(program)} {
		f.remove(dir + name)
		if err := os.Symlink(to, f.path(dir+name)); err != nil {
			f.Fatal(err)
		}
	}
}

// row returns the row of a check.
func (f *fixture) row(id string) Row {
	f.Helper()
	f.age()
	r := Run(f.System, []string{id})
	if len(r.Checks) != 1 || r.Checks[0].ID != id {
		f.Fatalf("%+v", r)
	}
	return r.Checks[0]
}

// age sets the modification times of the configuration to before the start of any process, except times in the future.
func (f *fixture) age() {
	f.Helper()
	before := time.Now().Add(-24 * 365 * time.Hour)
	err := filepath.WalkDir(f.path("etc"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.ModTime().Before(time.Now()) {
			err = os.Chtimes(path, before, before)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		f.Fatal(err)
	}
}
