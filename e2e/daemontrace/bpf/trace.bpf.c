// Divides the CPU time of a daemon among the files that its threads read and write. Every system call and every context
// switch of the daemon is traced, so the division is exact; every system call of the machine becomes slower.
#include "../../../ledger/sample/bpf/file.h"

char LICENSE[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct___trace {
	int pid;
	int tgid;
};
#pragma clang attribute pop

volatile const __u32 daemon_pid = 0;

struct file_key {
	__u32 device;
	__u32 padding;
	__u64 inode;
};

// Account 0 has the time that belongs to no other account.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct file_key);
	__type(value, __u32);
} accounts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} times SEC(".maps");

// A thread works for an account since a point in time. After a wait, the time belongs to the account of the next read or write,
// because the thread uses this time to find the next file to read or write.
struct thread {
	__u64 since; // 0: the thread does not run
	__u32 account;
	__u32 waited;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct thread);
} threads SEC(".maps");

static __always_inline struct thread *thread_of(__u32 tid)
{
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);
	if (t)
		return t;
	struct thread zero = {};
	bpf_map_update_elem(&threads, &tid, &zero, BPF_ANY);
	return bpf_map_lookup_elem(&threads, &tid);
}

static __always_inline void charge(struct thread *t, __u64 now)
{
	if (t->since) {
		__u64 *time = bpf_map_lookup_elem(&times, &t->account);
		if (time)
			__sync_fetch_and_add(time, now - t->since);
	}
	t->since = now;
}

static __always_inline __u32 account_of(struct task_struct *task, __u32 fd)
{
	struct inode *inode = inode_of(task, fd);
	if (!inode)
		return 0;
	struct file_key key = { .device = BPF_CORE_READ(inode, i_sb, s_dev), .inode = BPF_CORE_READ(inode, i_ino) };
	__u32 *account = bpf_map_lookup_elem(&accounts, &key);
	return account ? *account : 0;
}

SEC("tp_btf/sys_enter")
int sys_enter(__u64 *ctx)
{
	__u64 ids = bpf_get_current_pid_tgid();
	if (ids >> 32 != daemon_pid)
		return 0;
	struct thread *t = thread_of((__u32)ids);
	if (!t)
		return 0;
	long call = ctx[1];
	switch (call) {
	case 0:   // read
	case 1:   // write
	case 19:  // readv
	case 20:  // writev
	case 275: // splice
	case 45:  // recvfrom
	case 44:  // sendto
	case 47:  // recvmsg
	case 46: { // sendmsg
		__u32 account = account_of((void *)bpf_get_current_task_btf(), BPF_CORE_READ((struct pt_regs *)ctx[0], di));
		if (account == t->account && !t->waited)
			return 0;
		if (t->waited)
			t->account = account;
		charge(t, bpf_ktime_get_ns());
		t->account = account;
		t->waited = 0;
		return 0;
	}
	case 24:  // sched_yield
	case 35:  // nanosleep
	case 202: // futex
	case 230: // clock_nanosleep
	case 232: // epoll_wait
	case 281: // epoll_pwait
		if (!t->waited) {
			charge(t, bpf_ktime_get_ns());
			t->waited = 1;
		}
	}
	return 0;
}

SEC("tp_btf/sched_switch")
int sched_switch(__u64 *ctx)
{
	struct task_struct___trace *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u64 now = bpf_ktime_get_ns();
	if (BPF_CORE_READ(prev, tgid) == daemon_pid) {
		struct thread *t = thread_of(BPF_CORE_READ(prev, pid));
		if (t) {
			charge(t, now);
			t->since = 0;
		}
	}
	if (BPF_CORE_READ(next, tgid) == daemon_pid) {
		struct thread *t = thread_of(BPF_CORE_READ(next, pid));
		if (t)
			t->since = now;
	}
	return 0;
}
