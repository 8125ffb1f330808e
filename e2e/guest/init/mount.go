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

// v1 are cgroup v1's hierarchies as distributions mount them.
var v1 = []string{"cpu,cpuacct", "cpuset", "freezer", "memory", "pids", "devices"}

func mountAll(cgroupVersion int) error {
	var errs []error
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
		for _, controllers := range v1 {
			mount("cgroup", cgroupRoot+"/"+controllers, controllers)
		}
		for _, name := range []string{"cpu", "cpuacct"} {
			errs = append(errs, os.Symlink("cpu,cpuacct", cgroupRoot+"/"+name))
		}
		mount("cgroup2", cgroupRoot+"/unified", "")
		return errors.Join(errs...)
	}
	mount("cgroup2", cgroupRoot, "")
	return errors.Join(append(errs, delegate())...)
}

// delegate moves init from the root group to a leaf and turns the controllers on below the root, as systemd does.
func delegate() error {
	const leaf = cgroupRoot + "/init.scope"
	if err := os.Mkdir(leaf, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(leaf+"/cgroup.procs", []byte("0"), 0); err != nil {
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
