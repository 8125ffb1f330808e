// Package quota controls the quotas of groups between the operations of Candor. It is the only writer of a quota that differs
// from a group's limit.
//
// A group is a cgroup with a limit, which is the group's quota per period. The package keeps one account of CPU time for
// each group:
//
//	saved = earned - used - charged + credited
//
// A group earns the CPU time that its limit allows. It pays for its own CPU time, and for the CPU time that helpers spend for
// it (package ledger). It gets back the CPU time that it paid for other groups. While the account is positive, the quota can
// be raised above the limit for a throttled group (package burst). While the account is negative, the group has debt, and
// its quota is below the limit. If the quota would have to be below the kernel's minimum, 1 ms, the group is frozen from time to time
// instead. So on average, the CPU time of the group and of its helpers does not exceed the limit.
//
// The method [State.Next] makes the decisions. Its input is a reading of the group's counters. Its output is a new state, and
// the action to execute. It uses no clock and no files, so that it runs on the model of package bandwidth and on a kernel. A
// [Loop] calls it for the groups of a [Host].
//
// A period edge is the moment at which the kernel refills the quota of a group. Each write of a quota also refills the quota at
// once (tg_set_cfs_bandwidth in kernel/sched/core.c). So in the period of a write, a group can use more CPU time than its quota.
// This excess is called the leak. Therefore a Loop writes seldom, and shortly after a period edge, when the group has used little
// of its quota. The account counts the measured CPU time, so the group also pays for the leak.
package quota
