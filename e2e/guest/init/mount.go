package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// permanentGroup is a cgroup that is never removed. When the first cgroup needs a feature (quotas, cpusets, memory accounting or the
// freezer), the kernel enables the code of this feature. When the last such cgroup is removed, the kernel disables the code. Both times,
// the kernel replaces instructions, and QEMU before 8.1 can crash meanwhile (int3). With a permanent cgroup, the kernel replaces the
// instructions only once, before a second CPU runs.
const permanentGroup = "/keep"

// v1 are the hierarchies of cgroup v1 as distributions mount them. file and value are a setting for permanentGroup in the hierarchy.
var v1 = []struct{ controllers, file, value string }{
	{"cpu,cpuacct", "cpu.cfs_quota_us", "100000"},
	{"cpuset", "cpuset.mems", "0"},
	{"freezer", "freezer.state", "FROZEN"},
	{"memory", "memory.use_hierarchy", "1"},
	{"pids", "", ""},
	{"devices", "", ""},
}

func mountAll(cgroupVersion int) error {
	errs := []error{enterRoot()}
	mount := func(kind, at, data string) {
		if err := os.MkdirAll(at, 0o755); err != nil {
			errs = append(errs, err)
			return
		}
		if err := unix.Mount(kind, at, kind, 0, data); err != nil {
			errs = append(errs, fmt.Errorf("mount %s (%s %s): %w", at, kind, data, err))
		}
	}
	mount("proc", "/proc", "")
	mount("sysfs", "/sys", "")
	mount("devtmpfs", "/dev", "")
	mount("devpts", "/dev/pts", "")
	mount("tmpfs", "/dev/shm", "")
	mount("tmpfs", "/tmp", "")
	mount("tmpfs", "/run", "")
	if cgroupVersion == 1 {
		mount("tmpfs", cgroupRoot, "mode=755")
		for _, h := range v1 {
			mount("cgroup", cgroupRoot+"/"+h.controllers, h.controllers)
			if h.file != "" {
				errs = append(errs, makeGroup(cgroupRoot+"/"+h.controllers+permanentGroup, h.file, h.value))
			}
		}
		for _, name := range []string{"cpu", "cpuacct"} {
			errs = append(errs, os.Symlink("cpu,cpuacct", cgroupRoot+"/"+name))
		}
		mount("cgroup2", cgroupRoot+"/unified", "")
		return errors.Join(errs...)
	}
	mount("cgroup2", cgroupRoot, "")
	return errors.Join(append(errs, delegate(), makeGroup(cgroupRoot+permanentGroup, "cpu.max", "100000 100000"))...)
}

// enterRoot mounts the root file system again over the initial mount. This is necessary because container runtimes use pivot_root(2),
// which fails in the initial mount.
func enterRoot() error {
	const target = "/root"
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/", target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind /: %w", err)
	}
	if err := os.Chdir(target); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move %s to /: %w", target, err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return os.Chdir("/")
}

// delegate moves init from the root cgroup to a child and enables the controllers for the root's children, as systemd does.
func delegate() error {
	if err := makeGroup(cgroupRoot+"/init.scope", "cgroup.procs", "0"); err != nil {
		return err
	}
	have, err := os.ReadFile(cgroupRoot + "/cgroup.controllers")
	if err != nil {
		return err
	}
	for c := range strings.FieldsSeq(string(have)) {
		if err := os.WriteFile(cgroupRoot+"/cgroup.subtree_control", []byte("+"+c), 0); err != nil {
			return err
		}
	}
	return nil
}

// makeGroup creates a cgroup and writes one of its files.
func makeGroup(dir, file, value string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(dir+"/"+file, []byte(value), 0)
}

// busybox creates links to busybox for those programs of busybox that the guest lacks. It does nothing if the guest has no
// busybox.
func busybox() error {
	const path = "/bin/busybox"
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	list, err := exec.Command(path, "--list").Output()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for name := range strings.FieldsSeq(string(list)) {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if err := os.Symlink(path, "/bin/"+name); err != nil {
			return err
		}
	}
	return nil
}
