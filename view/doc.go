// Package view creates the files and the environment variables from which the programs of a container take their CPU count. It also reads
// the CPU counts that this process finds in all such sources (ReadSources).
//
// Even without a view, sched_getaffinity returns the CPUs of the container's cpuset. But most other programs read two files that show all
// CPUs of the machine: /sys/devices/system/cpu/online (glibc's sysconf, JVMs, Python) and /proc/cpuinfo (scripts, R, monitoring). A view
// is a copy of these two files that shows only the container's CPUs, under their real IDs. In the container's mount namespace, the copies
// are bind-mounted read-only over the originals.
//
// # Files that do not change
//
// /sys/devices/system/cpu/possible and present are not part of a view. Programs use their content as the size of arrays, and use CPU IDs
// as indexes of these arrays (libbpf's per-CPU maps, jemalloc's arenas, users of rseq). If "possible" were 0-3, such a program would
// write beyond the end of its array when a thread runs on CPU 17.
//
// /proc/stat is not part of a view, because it consists of counters. The counters in a plain file would stop, and a live copy would need a
// daemon that answers every read. The content of a view changes only at a resize, so plain files suffice. Programs that read possible,
// present or /proc/stat (Node's os.cpus, sysconf's _SC_NPROCESSORS_CONF) get the machine's CPU count, with or without a view.
//
// # Updates
//
// A bind mount refers to an inode. Therefore this package rewrites the files of a view in place, and never replaces or truncates them. If
// the new content is longer, the package first extends the file with newlines, which readers ignore. Then a single pwrite writes the new
// content, padded with newlines to the length of the file. Every stanza of cpuinfo has the same length. So a reader that gets some pages
// of the old content and some pages of the new content still counts correctly if both contents have the same number of CPUs.
//
// # Leases
//
// Root in the container owns the files and can take a lease on them (fcntl F_SETLEASE). The kernel then delays an open for writing until
// the lease is broken, 45 s by default. Open does not wait, but returns ErrLeased. While a process has the files open for writing (type
// Files), the kernel grants no lease.
//
// The package does not depend on limits or containers, and writes no cgroup file.
package view
