// Package view creates the files and the environment variables from which a container learns its CPU count, and reads the CPU counts
// that a place reports.
//
// sched_getaffinity follows a container's cpuset by itself. Two files that most other programs read do not follow it:
// /sys/devices/system/cpu/online (glibc's sysconf, JVMs, Python) and /proc/cpuinfo (scripts, R, monitoring). A view is a copy of
// these two files with the container's CPUs only, under their real IDs, bind-mounted read-only over the originals in the container's
// mount namespace.
//
// # Files that do not change
//
// /sys/devices/system/cpu/possible and present keep their content: programs size arrays by them and index the arrays by CPU ID
// (libbpf's per-CPU maps, jemalloc's arenas, users of rseq), and a view has the machine's IDs. With a "possible" of 0-3 and a thread
// on CPU 17, they would write beyond the end.
//
// /proc/stat keeps its content, since it consists of counters: a copy would stop, and a live copy needs a daemon that answers every
// read. A view changes only at a resize, so plain files suffice for the rest. Programs that read these sources (Node's os.cpus,
// sysconf's _SC_NPROCESSORS_CONF) get the machine's count, with or without a view.
//
// # Updates
//
// A bind mount follows the inode, so a view in use is rewritten in place and never truncated. First the file is extended with
// newlines, which readers ignore. From then on its length is constant, and a single pwrite writes the new content, padded with
// newlines. Every stanza of cpuinfo has the same length, so even a reader that gets some pages of the old content and some of the new
// content counts correctly while the number of CPUs is constant.
//
// # Leases
//
// Root in the container owns the files and can take a lease on them (fcntl F_SETLEASE). The kernel delays an open for writing until
// the lease is broken, 45 s by default. Open does not wait: ErrLeased. While a process has the files open for writing (Files), the
// kernel grants no lease.
//
// The package does not know limits, groups or containers. It writes no cgroup file.
package view
