// Records the CPU time of processes at their end. The kernel frees the first thread of a process last, after a grace period
// of RCU. At this time, the sum of the CPU time of all threads is final.
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct signal_struct {
	__u64 sum_sched_runtime; // of the ended threads
};

struct task_struct___freed {
	int pid;
	int tgid;
	__u64 start_boottime;
	struct signal_struct *signal;
};

#pragma clang attribute pop

struct record {
	__u64 time;  // CPU time of all threads, in nanoseconds; 0: the process has not been freed
	__u64 start; // start of the process, in nanoseconds since the boot
};

// The watched processes, by thread group. User space adds and removes the keys, and the program only fills the records.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct record);
} processes SEC(".maps");

SEC("tp_btf/sched_process_free")
int BPF_PROG(record_exit, struct task_struct *freed)
{
	struct task_struct___freed *task = (void *)freed;
	__u32 process = task->tgid;
	if (task->pid != process)
		return 0;
	struct record *record = bpf_map_lookup_elem(&processes, &process);
	if (!record)
		return 0;
	record->start = task->start_boottime;
	record->time = task->signal->sum_sched_runtime;
	return 0;
}
