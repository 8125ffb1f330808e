package probe

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

var archEvents = map[uint32]event{unix.SYS_OPEN: eventOpen, unix.SYS_FORK: eventStart, unix.SYS_VFORK: eventStart}
