// Package view creates the files and the environment variables from which the programs of a container take their CPU count and
// their memory. It also reads the numbers that this process finds in all such sources (ReadSources).
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
// Programs that read these files (sysconf's _SC_NPROCESSORS_CONF) get the machine's CPU count, with or without a view.
//
// # Live files
//
// The files above change only at a resize. The live files of a view (LiveFiles) change while the container runs: meminfo and
// swaps, and stat as an option. A Refresher rewrites them while programs read them. A single process at a time has the live files
// open. Without such a process, the files stay readable and MemTotal stays right, but the other values get old. No container mounts
// the files live, with the counters of stat, and memtotal, with MemTotal for other processes of Candor.
//
// The counters of stat (StatCounters) are the CPU time of the container's cgroup. They never decrease, because each process
// continues with the counters that the former process has stored and shown.
//
// # Memory
//
// A memory view (MemoryFiles) is a copy of /proc/meminfo and /proc/swaps with the memory of a container. Its values come from the
// memory controller (cgroup.Memory): MemTotal is the lowest limit, and the parts are the counters of memory.stat.
// testdata/meminfo-rules.md has the rule of each field. A field that has no meaning for a container is 0, so that a container
// never sees the machine's use. A container without a limit has no memory view (LimitsMemory).
//
// These values change all the time, so the files are rewritten while programs read them. Only digits change: the other text, the
// length of a file, and the offset and width of each number are constant. MemTotal changes only with the limit. A read during a
// write can mix two versions. When the kernel copies the content, it mostly moves aligned words of 8 bytes or more. No number of
// up to 8 digits crosses the end of such a word. Therefore every line of a mixed read still has a single number. If the digits of
// a larger number could fall apart, the package writes an intermediate version first (bridge). The parts of two numbers of more than
// 8 digits can still form a third number. A reader that is interrupted
// during two writes can still get other mixes.
//
// A memory view changes neither the answer of sysinfo(2), which glibc's sysconf(_SC_PHYS_PAGES) and busybox's free use, nor
// /sys/devices/system/node/node*/meminfo.
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
// the lease is broken, 45 s by default. Open does not wait, but returns ErrLeased. While a process has the files open for writing (types
// Files and LiveFiles), the kernel grants no lease.
//
// The package does not depend on containers, and writes no cgroup file.
package view
