package kernelfs

import "sync/atomic"

// An Access is a way to use a file or a directory of the kernel.
type Access string

// Accesses.
const (
	ReadAccess   Access = "read"
	WriteAccess  Access = "write"
	CreateAccess Access = "create"
	RemoveAccess Access = "remove"
)

// A Fault decides whether an access fails, and with which errno. Nil lets the kernel decide.
type Fault func(access Access, path string) error

var injected atomic.Pointer[Fault]

// InjectFault makes accesses fail until remove is called. It is for tests of refusals that a kernel cannot be made to give.
func InjectFault(fault Fault) (remove func()) {
	injected.Store(&fault)
	return func() { injected.Store(nil) }
}

// FaultOf returns the injected error of an access. Packages that write to the kernel by their own system calls ask it first.
func FaultOf(access Access, path string) error {
	if fault := injected.Load(); fault != nil {
		return (*fault)(access, path)
	}
	return nil
}

// IsInjected reports whether faults are injected. Fast paths that do not ask FaultOf step aside then.
func IsInjected() bool { return injected.Load() != nil }
