package kernelfs

import "sync/atomic"

// An Access is an operation on a file or a directory of the kernel.
type Access string

// Accesses.
const (
	ReadAccess   Access = "read"
	WriteAccess  Access = "write"
	CreateAccess Access = "create"
	RemoveAccess Access = "remove"
)

// A Fault returns the error with which an access fails, or nil if the access reaches the kernel.
type Fault func(access Access, path string) error

var injected atomic.Pointer[Fault]

// InjectFault passes all accesses to fault until remove is called. Tests use it for errors that a kernel cannot be made to return.
func InjectFault(fault Fault) (remove func()) {
	injected.Store(&fault)
	return func() { injected.Store(nil) }
}

// FaultOf returns the injected error of an access, or nil. A package with system calls of its own calls FaultOf before them.
func FaultOf(access Access, path string) error {
	if fault := injected.Load(); fault != nil {
		return (*fault)(access, path)
	}
	return nil
}

// IsInjected reports whether faults are injected. Code with a fast path that does not call FaultOf then uses its slow path.
func IsInjected() bool { return injected.Load() != nil }
