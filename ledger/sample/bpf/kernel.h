// The parts of the kernel's types that the programs read. The loader finds the offsets in the kernel's BTF (CO-RE), so
// no vmlinux.h is needed.
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#define BPF_MAP_TYPE_HASH 1
#define BPF_ANY 0

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	__u32 s_dev;
};

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	struct files_struct *files;
};

#if defined(__TARGET_ARCH_x86)

struct pt_regs {
	unsigned long di;
	unsigned long orig_ax;
};

#elif defined(__TARGET_ARCH_arm64)

struct pt_regs {
	__u64 orig_x0;
	__s32 syscallno;
};

#endif

#pragma clang attribute pop

// The context of a program on a perf event (uapi/linux/bpf_perf_event.h). The verifier knows its layout.
#if defined(__TARGET_ARCH_x86)

struct user_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

#elif defined(__TARGET_ARCH_arm64)

struct user_regs {
	__u64 regs[31];
	__u64 sp, pc, pstate;
};

#endif

struct bpf_perf_event_data {
	struct user_regs regs;
	__u64 sample_period;
	__u64 addr;
};
