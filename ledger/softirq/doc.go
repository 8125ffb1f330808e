// Package softirq measures the CPU time of received packets, and has a [Source] of this CPU time for package ledger.
//
// The kernel receives packets in softirqs. A softirq interrupts a task, and the scheduler counts the time of the softirq as CPU time
// of the task:
//
//	packets for web  -->  softirq on CPU 1  --interrupts-->  batch
//	(owner)                                                  (payer)
//
// BPF programs on the tracepoints softirq_entry, netif_receive_skb and softirq_exit measure the time. The owner of the time is
// the network namespace of the packet's device, the payer is the cgroup of the interrupted task:
//
//	owner                 payer                      charge         credit
//	container             another container          to the owner   to the payer
//	container             no container               to the owner   -
//	container             the same container         none           -
//	container             the sender of the packets  none           -
//	host or unknown       any                        none           -
//
// The containers of a pod share a network namespace. Each of them owns an equal part of the namespace's time.
//
// A kernel that accounts interrupts separately (CONFIG_IRQ_TIME_ACCOUNTING) does not count the time of softirqs as CPU time of a task. The
// owner is charged then, and no payer is credited.
//
// When a task sends a packet, the receiver's softirq often runs in this task, inside of its system call. The task causes this work, so the
// ledger leaves the time with the task. A task counts as a sender if it is in a system call on a socket.
//
// If a CPU has more than 70,000 packets and softirqs per second, a random sample of its softirqs is measured, and each measured
// softirq stands for several. The package needs root, or CAP_BPF and CAP_PERFMON, and Linux 5.15 or newer with BTF. The packets of
// threaded NAPI are not measured.
package softirq
