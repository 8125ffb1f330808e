// Finds the file of a descriptor.
#pragma once

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

// inode_of returns the inode of an open file of a task, or null.
static __always_inline struct inode *inode_of(struct task_struct *task, __u32 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	if (!table || fd >= BPF_CORE_READ(table, max_fds))
		return 0;
	struct file **slots = BPF_CORE_READ(table, fd);
	struct file *file = 0;
	if (bpf_probe_read_kernel(&file, sizeof file, &slots[fd]) || !file)
		return 0;
	return BPF_CORE_READ(file, f_inode);
}
