//go:build amd64 || arm64

package sample

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/ledger"
)

// A registerSampler samples without BPF: perf events record the register with the first argument of a system call, which is the
// descriptor in read and write. The number of the call is unknown, so a FIFO counts as read and a log as written. A thread in
// another call can have the number of a descriptor in the register by chance.
type registerSampler struct {
	processes map[int]*registerProcess
}

type registerProcess struct {
	threads     threads[*ring]
	descriptors map[uint64]openFile
	counts      counts
}

// newRegisterSampler returns an error if the kernel refuses these perf events, for example because CAP_PERFMON is missing.
func newRegisterSampler() (sampler, error) {
	s := &registerSampler{processes: map[int]*registerProcess{}}
	r, err := openRing(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("cannot sample registers: %w", err)
	}
	r.close()
	return s, nil
}

func (*registerSampler) method() ledger.Method { return ledger.Registers }

func (s *registerSampler) attach(pid int) error {
	p := s.processes[pid]
	if p == nil {
		p = &registerProcess{threads: threads[*ring]{}, counts: counts{files: map[fileKey]ioCount{}}}
		s.processes[pid] = p
	}
	return p.attach(pid)
}

func (s *registerSampler) detach(pid int) {
	if p := s.processes[pid]; p != nil {
		p.close()
		delete(s.processes, pid)
	}
}

func (s *registerSampler) watch(pid int, open *openFiles) error {
	p := s.processes[pid]
	p.descriptors = map[uint64]openFile{}
	files := map[fileKey]ioCount{}
	for name, file := range open.known {
		if number, err := strconv.ParseUint(name, 10, 32); err == nil && file.mode != 0 {
			p.descriptors[number] = file
			if file.ok {
				files[file.key] = p.counts.files[file.key]
			}
		}
	}
	p.counts.files = files
	return nil
}

func (s *registerSampler) read(pid int, _ time.Time) (counts, error) {
	p := s.processes[pid]
	for _, r := range p.threads {
		r.drain(p.count)
	}
	c := p.counts
	c.files = make(map[fileKey]ioCount, len(p.counts.files))
	maps.Copy(c.files, p.counts.files)
	return c, nil
}

func (s *registerSampler) Close() error {
	for pid := range s.processes {
		s.detach(pid)
	}
	return nil
}

// attach opens a ring for each new thread, and closes the rings of ended threads.
func (p *registerProcess) attach(pid int) error {
	return p.threads.update(pid, openRing, func(r *ring) {
		r.drain(p.count)
		r.close()
	})
}

func (p *registerProcess) close() { p.threads.close((*ring).close) }

// count counts a sample.
func (p *registerProcess) count(isUser bool, argument uint64) {
	if isUser {
		p.counts.user++
		return
	}
	file, isOpen := p.descriptors[argument]
	switch {
	case !isOpen:
		p.counts.calls++
	case !file.ok:
		p.counts.rest.read++
	default:
		io := p.counts.files[file.key]
		if file.mode == unix.S_IFIFO {
			io.read++
		} else {
			io.write++
		}
		p.counts.files[file.key] = io
	}
}

// A ring is the buffer of a perf event (perf_event_open(2), "MMAP layout").
type ring struct {
	fd     int
	memory []byte
}

// dataPages is the number of pages for samples. A sample has 40 bytes, so the ring holds more than a second of CPU time.
const dataPages = 16

// openRing opens a perf event of a thread. The event records the register of the first argument.
func openRing(tid int) (*ring, error) {
	a := attributes()
	a.Sample_type = unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_REGS_USER
	a.Sample_regs_user = 1 << argumentRegister[runtime.GOARCH]
	fd, err := unix.PerfEventOpen(a, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(fd, 0, (1+dataPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &ring{fd, memory}, nil
}

// argumentRegister is the bit of the register with the first argument of a system call (uapi/asm/perf_regs.h).
var argumentRegister = map[string]uint{"amd64": 5, "arm64": 0}

func (r *ring) close() {
	_ = unix.Munmap(r.memory) // after an error, the mapping lasts until this process ends
	unix.Close(r.fd)
}

// drain reads the samples.
func (r *ring) drain(count func(isUser bool, argument uint64)) {
	page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.memory[0])) // the kernel and this process share the page
	data := r.memory[os.Getpagesize():]
	head, tail := atomic.LoadUint64(&page.Data_head), page.Data_tail
	eachSample(data, tail, head, count)
	atomic.StoreUint64(&page.Data_tail, head)
}

// eachSample parses the records of a ring between two positions. It stops at a record that is not valid.
func eachSample(data []byte, tail, head uint64, count func(isUser bool, argument uint64)) {
	size := uint64(len(data))
	word := func(at uint64) uint64 { // the size of the ring and the length of each record are multiples of 8
		at %= size
		return binary.NativeEndian.Uint64(data[at : at+8])
	}
	for tail < head && head-tail <= size {
		header := word(tail)
		kind, mode, length := uint32(header), header>>32&7, header>>48
		if length < 8 || length%8 != 0 || length > head-tail {
			return
		}
		const words = 5 // header, IP, PID and TID, ABI of the registers, register
		if kind == unix.PERF_RECORD_SAMPLE && length >= (words-1)*8 {
			argument := ^uint64(0)
			if abi := word(tail + 3*8); abi != unix.PERF_SAMPLE_REGS_ABI_NONE && length >= words*8 {
				argument = word(tail + 4*8)
			}
			const userMode = 2 // PERF_RECORD_MISC_USER
			count(mode == userMode, argument)
		}
		tail += length
	}
}
