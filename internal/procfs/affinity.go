package procfs

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// Affinity returns the CPUs on which a thread can run (sched_getaffinity); 0 is the calling thread. The kernel refuses a buffer
// with fewer bits than possible CPUs (nr_cpu_ids). unix.CPUSet has only 1024 bits, and the firmware of some machines declares
// more possible CPUs. Affinity therefore uses a larger buffer.
func Affinity(tid int) (cpus cpuset.Set, err error) {
	var mask [8192 / 64]uint64 // the largest CONFIG_NR_CPUS of distributions
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(tid), unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask[0])))
	if errno != 0 {
		return cpus, errno
	}
	for cpu := range cpuset.Max {
		if mask[cpu/64]&(1<<(cpu%64)) != 0 {
			cpus.Add(cpu)
		}
	}
	return cpus, nil
}
