// Package sample measures the CPU time that the helpers of container engines spend for containers: a [Source] for package
// ledger.
//
// Helpers are processes that root of the node runs outside of containers:
//
//	process                  serves           CPU time goes
//	conmon, binary logger    a container      to the container
//	shim of a container      a container      to the container
//	shim of a pod            a pod            to its containers, by samples
//	containerd, dockerd      all containers   to all containers, by samples
//
// The CPU clock of a process gives its exact CPU time. Samples only divide this time: a perf event interrupts each thread of
// the daemon after every millisecond of CPU time. Then a BPF program reads the thread's system call and the file of the
// call. The device and inode of the file lead to the container, because the daemon holds the FIFOs and logs of its
// containers open (/proc/PID/fd). An idle daemon causes no samples, and no other program becomes slower.
//
// The CPU clock of a process ends with the process. Another BPF program records the CPU time of helpers that end, so that the
// time since their last reading is booked too.
//
// The package needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE.
package sample
