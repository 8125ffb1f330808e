package probe

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

var oldCalls = map[uint32]call{unix.SYS_OPEN: opens, unix.SYS_FORK: starts, unix.SYS_VFORK: starts}
