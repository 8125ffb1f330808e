//go:build amd64 || arm64

package softirq

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

//go:generate ../../bin/tools/bpf2go -target amd64,arm64 -cc clang softirq bpf/softirq.bpf.c -- -Wall -Werror

// bpfTracer traces softirqs with BPF programs.
type bpfTracer struct {
	objects softirqObjects
	links   []link.Link
}

// newTracer loads and attaches the programs. If a CPU has more than budget packets and softirqs per second, the programs measure only a
// sample of its softirqs.
func newTracer(isUnified bool, budget uint64) (tracer, error) {
	_ = rlimit.RemoveMemlock() // before Linux 5.11, maps count as locked memory; if the limit is too low, the load fails
	t := &bpfTracer{}
	if err := t.load(isUnified, budget); err != nil {
		_ = t.Close()
		return nil, fmt.Errorf("cannot trace the softirqs of packets: %w; this needs CAP_BPF and CAP_PERFMON, and Linux 5.15 or newer with BTF", err)
	}
	return t, nil
}

func (t *bpfTracer) load(isUnified bool, budget uint64) error {
	spec, err := loadSoftirq()
	if err != nil {
		return err
	}
	unified := uint8(0)
	if isUnified {
		unified = 1
	}
	err = errors.Join(spec.Variables[softirqVarUnified].Set(unified), spec.Variables[softirqVarEventBudget].Set(budget))
	if err == nil {
		err = spec.LoadAndAssign(&t.objects, nil)
	}
	if err != nil {
		return err
	}
	for _, program := range []*ebpf.Program{t.objects.Leave, t.objects.Receive, t.objects.Enter} {
		l, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return err
		}
		t.links = append(t.links, l)
	}
	return nil
}

// read returns the time of the accounts, as sums over all CPUs, and the counters of the CPUs.
func (t *bpfTracer) read() (map[account]uint64, counters, error) {
	accounts := map[account]uint64{}
	var key softirqAccount
	var times []uint64
	entries := t.objects.Accounts.Iterate()
	for entries.Next(&key, &times) {
		sum := uint64(0)
		for _, time := range times {
			sum += time
		}
		accounts[account{key.Payer, key.Owner, key.Caused != 0}] = sum
	}
	// The iteration can end early while the BPF programs add accounts. The accounts that it has returned are correct.
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, counters{}, fmt.Errorf("cannot read the softirqs: %w", err)
	}
	var cpus []softirqCpu
	if err := t.objects.Cpus.Lookup(uint32(0), &cpus); err != nil {
		return nil, counters{}, fmt.Errorf("cannot read the softirqs: %w", err)
	}
	var c counters
	for _, cpu := range cpus {
		c.unowned += cpu.Unowned
		c.sent += cpu.Sent
		c.overflow += cpu.Overflow
		c.packets += cpu.Packets
		c.softirqs += cpu.Softirqs
	}
	return accounts, c, nil
}

// remove removes an account. It returns the time of the account.
func (t *bpfTracer) remove(a account) (sum uint64) {
	key := softirqAccount{Payer: a.payer, Owner: a.owner}
	if a.isCaused {
		key.Caused = 1
	}
	var times []uint64
	if t.objects.Accounts.LookupAndDelete(&key, &times) != nil {
		return 0 // the account does not exist
	}
	for _, time := range times {
		sum += time
	}
	return sum
}

func (t *bpfTracer) Close() error {
	var errs []error
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, t.objects.Close())...)
}
