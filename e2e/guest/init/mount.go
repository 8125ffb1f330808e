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

// keep is a group that stays. The kernel turns its code for quotas, cpusets, accounted memory and the freezer on with the first
// group that needs it and off with the last, by replacing instructions, and QEMU before 8.1 may run what was there (int3). With
// this group that is done once, while one CPU runs.
const keep = "/keep"

// v1 are cgroup v1's hierarchies as distributions mount them, and what the group that stays has in each.
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
				errs = append(errs, makeGroup(cgroupRoot+"/"+h.controllers+keep, h.file, h.value))
			}
		}
		for _, name := range []string{"cpu", "cpuacct"} {
			errs = append(errs, os.Symlink("cpu,cpuacct", cgroupRoot+"/"+name))
		}
		mount("cgroup2", cgroupRoot+"/unified", "")
		return errors.Join(errs...)
	}
	mount("cgroup2", cgroupRoot, "")
	return errors.Join(append(errs, delegate(), makeGroup(cgroupRoot+keep, "cpu.max", "100000 100000"))...)
}

// enterRoot puts a mount over the kernel's first one: that can't be left by pivot_root(2), which is how runtimes enter a container.
func enterRoot() error {
	const over = "/root"
	if err := os.MkdirAll(over, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("/", over, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind /: %w", err)
	}
	if err := os.Chdir(over); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move %s to /: %w", over, err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return os.Chdir("/")
}

// delegate moves init from the root group to a leaf and turns the controllers on below the root, as systemd does.
func delegate() error {
	if err := makeGroup(cgroupRoot+"/init.scope", "cgroup.procs", "0"); err != nil {
		return err
	}
	have, err := os.ReadFile(cgroupRoot + "/cgroup.controllers")
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(have)) {
		if err := os.WriteFile(cgroupRoot+"/cgroup.subtree_control", []byte("+"+c), 0); err != nil {
			return err
		}
	}
	return nil
}

// makeGroup makes a group and writes one of its files.
func makeGroup(dir, file, value string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(dir+"/"+file, []byte(value), 0)
}

// busybox is every small program that the guest has no other one for.
func busybox() error {
	const path = "/bin/busybox"
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	list, err := exec.Command(path, "--list").Output()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range strings.Fields(string(list)) {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if err := os.Symlink(path, "/bin/"+name); err != nil {
			return err
		}
	}
	return nil
}
