//go:build amd64

// Package daemontrace divides the CPU time of a daemon among containers exactly: it traces each system call and each context
// switch of the daemon. Tests compare the samples of package ledger/sample with the results. The package is no part of candor,
// because each system call of the machine takes twice as long during a trace.
package daemontrace

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

//go:generate ../../bin/tools/bpf2go -target amd64 -cc clang trace bpf/trace.bpf.c -- -Wall -Werror

// A Trace is a running trace.
type Trace struct {
	objects traceObjects
	links   []link.Link
	names   []string // by account; the first is ""
}

// Start traces a daemon, given its process ID. files has the FIFOs and logs of each container.
func Start(pid int, files map[string][]string) (*Trace, error) {
	spec, err := loadTrace()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables["daemon_pid"].Set(uint32(pid)); err != nil {
		return nil, err
	}
	t := &Trace{names: []string{""}}
	if err := spec.LoadAndAssign(&t.objects, nil); err != nil {
		return nil, err
	}
	if err := t.start(files); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Trace) start(files map[string][]string) error {
	for name, paths := range files {
		account := uint32(len(t.names))
		t.names = append(t.names, name)
		for _, path := range paths {
			var st unix.Stat_t
			if err := unix.Stat(path, &st); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			key := traceFileKey{Device: unix.Major(st.Dev)<<20 | unix.Minor(st.Dev), Inode: st.Ino}
			if err := t.objects.Accounts.Put(&key, account); err != nil {
				return err
			}
		}
	}
	for account := range t.names {
		if err := t.objects.Times.Put(uint32(account), uint64(0)); err != nil {
			return err
		}
	}
	for _, options := range []link.TracingOptions{{Program: t.objects.SysEnter}, {Program: t.objects.SchedSwitch}} {
		l, err := link.AttachTracing(options)
		if err != nil {
			return err
		}
		t.links = append(t.links, l)
	}
	return nil
}

// Read returns the CPU time by container since the start; "" has the time of no container.
func (t *Trace) Read() (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for account, name := range t.names {
		var ns uint64
		if err := t.objects.Times.Lookup(uint32(account), &ns); err != nil {
			return nil, err
		}
		times[name] = time.Duration(ns)
	}
	return times, nil
}

// Close ends the trace.
func (t *Trace) Close() {
	for _, l := range t.links {
		_ = l.Close() // at the latest, the trace ends with this process
	}
	_ = t.objects.Close() // at the latest, the objects end with this process
}
