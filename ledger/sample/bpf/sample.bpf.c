// Samples the work of container daemons. A perf event of the CPU clock runs the program on each CPU. If the interrupted
// thread belongs to a daemon, the program counts the sample: by the file, if the thread is in a read or a write of a
// container's FIFO or log, else by the kind of work.
#include "file.h"

char LICENSE[] SEC("license") = "GPL";

struct io {
	__u64 read, write;
};

struct work {
	__u64 user, calls;
	struct io rest; // reads and writes of other files
};

struct file_key {
	__u32 process; // thread group of the daemon
	__u32 device;  // as the kernel encodes it: major << 20 | minor
	__u64 inode;
};

// User space fills both maps, and the program only counts. This map has the daemons, by thread group.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct work);
} daemons SEC(".maps");

// FIFOs and logs of containers.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct file_key);
	__type(value, struct io);
} files SEC(".maps");

enum direction { NEITHER, READ, WRITE };

#if defined(__TARGET_ARCH_x86)

static __always_inline int in_user_mode(struct bpf_perf_event_data *ctx)
{
	return (ctx->regs.cs & 3) == 3;
}

static __always_inline long system_call(struct pt_regs *regs, __u32 *fd)
{
	*fd = BPF_CORE_READ(regs, di);
	return BPF_CORE_READ(regs, orig_ax);
}

// arch/x86/entry/syscalls/syscall_64.tbl
static __always_inline enum direction direction(long call)
{
	switch (call) {
	case 0:   // read
	case 17:  // pread64
	case 19:  // readv
	case 45:  // recvfrom
	case 47:  // recvmsg
	case 275: // splice: the first argument is the source
		return READ;
	case 1:  // write
	case 18: // pwrite64
	case 20: // writev
	case 44: // sendto
	case 46: // sendmsg
		return WRITE;
	}
	return NEITHER;
}

#elif defined(__TARGET_ARCH_arm64)

static __always_inline int in_user_mode(struct bpf_perf_event_data *ctx)
{
	return (ctx->regs.pstate & 0xf) == 0; // exception level 0
}

static __always_inline long system_call(struct pt_regs *regs, __u32 *fd)
{
	*fd = BPF_CORE_READ(regs, orig_x0);
	return BPF_CORE_READ(regs, syscallno);
}

// include/uapi/asm-generic/unistd.h
static __always_inline enum direction direction(long call)
{
	switch (call) {
	case 63:  // read
	case 65:  // readv
	case 67:  // pread64
	case 76:  // splice: the first argument is the source
	case 207: // recvfrom
	case 212: // recvmsg
		return READ;
	case 64:  // write
	case 66:  // writev
	case 68:  // pwrite64
	case 206: // sendto
	case 211: // sendmsg
		return WRITE;
	}
	return NEITHER;
}

#endif

static __always_inline struct io *file_of(struct task_struct *task, __u32 process, __u32 fd)
{
	struct inode *inode = inode_of(task, fd);
	if (!inode)
		return 0;
	struct file_key key = {
		.process = process,
		.device = BPF_CORE_READ(inode, i_sb, s_dev),
		.inode = BPF_CORE_READ(inode, i_ino),
	};
	return bpf_map_lookup_elem(&files, &key);
}

static __always_inline void count(struct io *io, enum direction d)
{
	__sync_fetch_and_add(d == READ ? &io->read : &io->write, 1);
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	__u32 process = bpf_get_current_pid_tgid() >> 32;
	struct work *work = bpf_map_lookup_elem(&daemons, &process);
	if (!work)
		return 0;
	if (in_user_mode(ctx)) {
		__sync_fetch_and_add(&work->user, 1);
		return 0;
	}
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	__u32 fd;
	enum direction d = direction(system_call((void *)bpf_task_pt_regs(task), &fd));
	if (d == NEITHER) {
		__sync_fetch_and_add(&work->calls, 1);
		return 0;
	}
	struct io *io = file_of(task, process, fd);
	count(io ? io : &work->rest, d);
	return 0;
}
