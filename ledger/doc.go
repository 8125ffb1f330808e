// Package ledger books the CPU time that helpers spend for containers.
//
// A container that writes to its standard output makes other processes work: the shim copies the bytes, and containerd,
// dockerd or conmon writes them to a log. Such a process is a helper. Its CPU time is in another cgroup, so no limit of
// the container bounds it:
//
//	container  --pipe-->  shim  --FIFO-->  containerd  --write-->  log file
//	(source)              (helper)         (helper of all containers)
//
// A [Source] measures helpers and books their CPU time in a [Book]. A helper of a single container is charged to that
// container. The CPU time of a daemon that serves many containers is divided by samples of its work ([Split]). CPU time
// that no container caused stays unattributed, so that for each daemon
//
//	charges + unattributed = CPU time of the daemon
//
// Received packets cause work too. The kernel does this work in softirqs, at the expense of the container that runs on the
// CPU. The container that receives the packets is charged, and the container that paid is credited.
//
// The package is pure: it does no I/O and has no clock. Package ledger/sample measures the helpers of container engines, and
// package ledger/softirq measures packets. The method follows "cgroup extension for CPU resource accounting" (IPSJ SIG
// Technical Report, 2022), whose kernel patch charges the log driver of nerdctl; the ledger needs no patch.
package ledger
