// Package view makes the files and the environment that tell a container how
// many CPUs it has, and reads back what a place is told.
//
// sched_getaffinity follows a container's cpuset by itself. The two files that
// most other programs ask do not: /sys/devices/system/cpu/online (glibc's
// sysconf, JVMs, Python) and /proc/cpuinfo (scripts, R, monitoring). A view is
// a copy of these two with the container's CPUs only, under their real ids,
// bind-mounted read-only over the originals in the container's own mount
// namespace.
//
// # What stays true
//
// /sys/devices/system/cpu/possible and present are left as they are: programs
// size arrays by them and index these by CPU id (libbpf's per-CPU maps,
// jemalloc's arenas, rseq users), and the ids of a view are the machine's. With
// a "possible" of 0-3 and a thread on CPU 17 they would write beyond the end.
//
// /proc/stat is left as it is because it is not a number but a flow of counters:
// a copy would stand still, and keeping it alive takes a daemon that answers
// every read. The size of a view changes only by a resize, so plain files
// are enough for the rest. What asks these sources (Node's os.cpus, sysconf's
// _SC_NPROCESSORS_CONF) is told the machine's number, with a view or without.
//
// # How a view changes
//
// A bind mount follows the inode, so a view that is in use is rewritten in place
// and never truncated. First the file is made long enough with newlines, which no
// reader minds; from then on its length is constant, and the new content, padded with
// newlines, goes in by one pwrite. Every stanza of cpuinfo has the same length, so
// that even a reader that gets some pages of the old content and some of the new
// counts right as long as the number of CPUs stays the same.
//
// # Leases
//
// Root in the container owns the files and can take a lease on them (fcntl F_SETLEASE). The
// kernel lets an open for writing wait until the lease is broken, 45 s by default. Open does not wait: ErrLeased. While a
// process has the files open for writing (Files), the kernel grants no lease.
//
// The package knows nothing of limits, groups or containers. It writes no cgroup
// file.
package view
