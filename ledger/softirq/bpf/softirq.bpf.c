// Measures the CPU time of received packets: softirqs of the vector NET_RX. The owner of the time is the network namespace of
// the packet's device. The payer is the cgroup of the task that the softirq interrupted: the scheduler counts the time as
// this task's.
#include "../../sample/bpf/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

#define BPF_MAP_TYPE_PERCPU_HASH 5
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_NOEXIST 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	possible_net_t nd_net;
};

struct sk_buff {
	struct net_device *dev;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
};

struct task_struct___payer {
	unsigned int flags;
	struct css_set *cgroups;
};

struct inode___mode {
	unsigned short i_mode;
};

#pragma clang attribute pop

enum cgroup_subsys_id { cpu_cgrp_id = 1 };

enum {
	NET_RX = 3,              // include/linux/interrupt.h
	PF_IDLE = 0x2,           // include/linux/sched.h
	PF_KTHREAD = 0x00200000, // include/linux/sched.h
	S_IFMT = 0170000,
	S_IFSOCK = 0140000,
	MAX_WEIGHT = 64,
};

#define WINDOW 100000000ULL // nanoseconds between two choices of the weight

// Set by the loader.
volatile const __u8 unified = 0;             // the cpu controller is in the hierarchy of cgroup v2
volatile const __u64 event_budget = 100000; // packets and softirqs per second of a CPU from which softirqs are sampled

struct account {
	__u64 payer;  // ID of the cgroup; 0: the idle task
	__u32 owner;  // inode of the network namespace
	__u32 caused; // 1: the payer works on a socket, so it causes the packets
};

struct cpu {
	__u64 mark;        // time up to which the softirq is booked; 0: not in a softirq, or not sampled
	__u32 owner;       // 0: no packet yet
	__u32 weight;      // softirqs for which a sampled softirq stands
	__u64 next_weight;
	__u64 window;      // start of the window
	__u64 in_window;   // packets and softirqs in the window
	__u64 packets;     // all packets in softirqs
	__u64 unowned;     // nanoseconds of softirqs without a packet
	__u64 sent;        // nanoseconds of softirqs without a packet, caused by a task in a call on a socket: it sends
	__u64 overflow;    // nanoseconds without room in the map
	__u64 softirqs;    // sampled softirqs
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

// Nanoseconds by account. User space removes accounts without new time.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct account);
	__type(value, __u64);
} accounts SEC(".maps");

static __always_inline struct cpu *this_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&cpus, &zero);
}

static __always_inline __u64 cgroup_of(struct task_struct___payer *task)
{
	struct css_set *set = task->cgroups;
	if (unified)
		return set->dfl_cgrp->kn->id;
	struct cgroup_subsys_state **slots = (void *)set + bpf_core_field_offset(set->subsys);
	struct cgroup_subsys_state *state = 0;
	__u32 slot = bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id);
	if (bpf_probe_read_kernel(&state, sizeof state, &slots[slot]))
		return 0;
	return BPF_CORE_READ(state, cgroup, kn, id);
}

// in_call reports whether the task is in a system call, and returns the call's first argument. An interrupt in user mode
// leaves the number -1.
static __always_inline int in_call(struct task_struct *task, __u64 *argument)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
#if defined(__TARGET_ARCH_x86)
	*argument = regs->di;
	return (__s64)regs->orig_ax >= 0;
#else
	*argument = regs->orig_x0;
	return regs->syscallno >= 0;
#endif
}

// uses_socket reports whether a task is in a system call on a socket. Such a call runs the softirq that its own packets
// raise (net/core/dev.c: __local_bh_enable_ip calls do_softirq).
static __always_inline int uses_socket(struct task_struct *task)
{
	__u64 descriptor;
	if (!in_call(task, &descriptor))
		return 0;
	struct fdtable *table = task->files->fdt;
	if (descriptor >= table->max_fds)
		return 0;
	struct file **slots = table->fd;
	struct file *file = 0;
	if (bpf_probe_read_kernel(&file, sizeof file, &slots[descriptor]) || !file)
		return 0;
	struct inode___mode *inode = (void *)BPF_CORE_READ(file, f_inode);
	return (BPF_CORE_READ(inode, i_mode) & S_IFMT) == S_IFSOCK;
}

// book books the time since the mark.
static __always_inline void book(struct cpu *cpu, __u64 now)
{
	__u64 time = (now - cpu->mark) * cpu->weight;
	cpu->mark = now;
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct task_struct___payer *payer = (void *)task;
	unsigned int flags = payer->flags;
	int caused = !(flags & (PF_IDLE | PF_KTHREAD)) && uses_socket(task);
	if (!cpu->owner) {
		*(caused ? &cpu->sent : &cpu->unowned) += time;
		return;
	}
	struct account account = {.owner = cpu->owner, .caused = caused};
	if (!(flags & PF_IDLE))
		account.payer = cgroup_of(payer);
	__u64 *total = bpf_map_lookup_elem(&accounts, &account);
	if (total) {
		*total += time;
	} else if (bpf_map_update_elem(&accounts, &account, &time, BPF_NOEXIST)) {
		// Another CPU can have added the account meanwhile.
		total = bpf_map_lookup_elem(&accounts, &account);
		if (total)
			*total += time;
		else
			cpu->overflow += time;
	}
}

// choose_weight returns the weight for the next softirqs, by the packets and softirqs of the last window. Above the budget, the
// weight is at least 4, since also a softirq without a sample has a cost.
static __always_inline __u32 choose_weight(struct cpu *cpu, __u64 now)
{
	__u64 elapsed = now - cpu->window;
	if (elapsed < WINDOW)
		return cpu->next_weight;
	__u64 budget = event_budget * (elapsed / 1000) / 1000000;
	__u64 weight = cpu->in_window <= budget ? 1 : 4 * cpu->in_window / (budget ? budget : 1);
	cpu->window = now;
	cpu->in_window = 0;
	return weight < MAX_WEIGHT ? weight : MAX_WEIGHT;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(enter, unsigned int vector)
{
	if (vector != NET_RX)
		return 0;
	struct cpu *cpu = this_cpu();
	if (!cpu)
		return 0;
	cpu->mark = 0;
	cpu->in_window++;
	cpu->weight = cpu->next_weight;
	if (cpu->weight > 1 && bpf_get_prandom_u32() % cpu->weight)
		return 0;
	if (!cpu->weight)
		cpu->weight = 1;
	__u64 now = bpf_ktime_get_ns();
	cpu->next_weight = choose_weight(cpu, now);
	cpu->softirqs++;
	cpu->owner = 0;
	cpu->mark = now;
	return 0;
}

// The time before the first packet belongs to the owner of the packet: the driver or the backlog delivers the packet.
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(receive, struct sk_buff *skb)
{
	struct cpu *cpu = this_cpu();
	if (!cpu)
		return 0;
	cpu->in_window++;
	cpu->packets++;
	if (!cpu->mark)
		return 0;
	__u32 owner = skb->dev->nd_net.net->ns.inum;
	if (owner == cpu->owner)
		return 0;
	if (cpu->owner)
		book(cpu, bpf_ktime_get_ns());
	cpu->owner = owner;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(leave, unsigned int vector)
{
	if (vector != NET_RX)
		return 0;
	struct cpu *cpu = this_cpu();
	if (!cpu || !cpu->mark)
		return 0;
	book(cpu, bpf_ktime_get_ns());
	cpu->mark = 0;
	return 0;
}
