package probe

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

var archEvents = map[uint32]event{} // arm64 never had these system calls
