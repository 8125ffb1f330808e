package cgroup

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernelfs"
)

// errLeft is what swapV1 does not do.
var errLeft = errors.New("left to moveV1")

// swapV1 sets one resource of the cpuset controller in a group that has some already, by one open file and as few calls as can be: a
// container with CPUs of its own takes them from hundreds of groups, one after the other. Where it is false
// nothing was changed: moveV1 does it, or says why not.
func swapV1(dir, file string, next cpuset.Set) (done bool) {
	if kernelfs.IsInjected() {
		return false
	}
	swap := func(fd int) error { return swapOpenV1(fd, dir, next) }
	if done, err := withKept(dir, file, true, swap); done {
		return err == nil
	}
	fd, err := open(dir+"/"+file, unix.O_RDWR)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return swap(fd) == nil
}

// swapOpenV1 is swapV1 for an open file.
func swapOpenV1(fd int, dir string, next cpuset.Set) error {
	var content [512]byte // a list that is longer is for moveV1
	n, err := unix.Pread(fd, content[:], 0)
	if err != nil {
		return err
	}
	if n < 1 || n == len(content) {
		return errLeft
	}
	old, err := cpuset.Parse(string(content[:n-1]))
	if err != nil || old.IsEmpty() || next.IsEmpty() {
		return errLeft
	}
	if old == next {
		return nil
	}
	// Nested groups that have less than all already go on to have that, and with one that has more the kernel refuses to give less
	// to the group. To a group that gets more they may have to be brought along; one that is made from now on
	// is within old, and in the way only if it is not within next.
	if !next.SubsetOf(&old) {
		if nested, err := subgroups(dir); err != nil || len(nested) > 0 {
			return errLeft
		}
	}
	_, err = unix.Pwrite(fd, []byte(next.String()), 0)
	return err
}
