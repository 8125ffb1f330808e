package cgroup

import (
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// swapV1 sets one resource of the cpuset controller in a group that has some already and in which no group is nested, by one open
// file: a container with CPUs of its own takes them from hundreds of groups, one after the other. Where it is false
// nothing was changed: moveV1 does it, or says why not.
func swapV1(dir, file string, next cpuset.Set) (done bool) {
	fd, err := open(dir+"/"+file, unix.O_RDWR)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var content [512]byte // a list that is longer is for moveV1
	n, err := unix.Read(fd, content[:])
	if err != nil || n < 1 || n == len(content) {
		return false
	}
	old, err := cpuset.Parse(string(content[:n-1]))
	if err != nil || old.IsEmpty() || next.IsEmpty() {
		return false
	}
	if old == next {
		return true
	}
	nested, err := subgroups(dir) // one that is made from now on is within old, and in the way only if it is not within next
	if err != nil || len(nested) > 0 {
		return false
	}
	_, err = unix.Pwrite(fd, []byte(next.String()), 0)
	return err == nil
}
