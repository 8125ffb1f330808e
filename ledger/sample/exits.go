//go:build amd64 || arm64

package sample

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

//go:generate ../../bin/tools/bpf2go -target amd64,arm64 -cc clang exits bpf/exits.bpf.c -- -Wall -Werror

// bpfExits records the CPU time of ended processes with a BPF program.
type bpfExits struct {
	objects exitsObjects
	link    link.Link
}

// initialPIDs is the initial PID namespace, whose process IDs the BPF program sees.
const initialPIDs = "pid:[4026531836]" // PROC_PID_INIT_INO in include/linux/proc_ns.h

func newExitRecorder() (exitRecorder, error) {
	if namespace, err := os.Readlink("/proc/self/ns/pid"); err != nil || namespace != initialPIDs {
		return nil, errors.Join(errOtherPIDs, err)
	}
	_ = rlimit.RemoveMemlock() // before Linux 5.11, maps count as locked memory; if the limit is too low, the load fails
	e := &bpfExits{}
	err := loadExitsObjects(&e.objects, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot load the BPF program for ended processes: %w", err)
	}
	if e.link, err = link.AttachTracing(link.TracingOptions{Program: e.objects.RecordExit}); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot trace the end of processes: %w", err), e.objects.Close())
	}
	return e, nil
}

func (e *bpfExits) watch(pid int) error {
	key := uint32(pid)
	if err := e.objects.Processes.Put(&key, &exitsRecord{}); err != nil {
		return fmt.Errorf("cannot watch the end of process %d: %w", pid, err)
	}
	return nil
}

func (e *bpfExits) read(pid int) (r exitRecord, exists bool) {
	key := uint32(pid)
	var record exitsRecord
	if err := e.objects.Processes.Lookup(&key, &record); err != nil || record.Time == 0 {
		return r, false
	}
	return exitRecord{time.Duration(record.Time), record.Start / uint64(clockTick)}, true
}

func (e *bpfExits) forget(pid int) {
	key := uint32(pid)
	_ = e.objects.Processes.Delete(&key) // the key may be missing
}

func (e *bpfExits) Close() error { return errors.Join(e.link.Close(), e.objects.Close()) }
