//go:build amd64 || arm64

package sample

import (
	"fmt"

	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/ledger"
)

//go:generate ../../bin/tools/bpf2go -target amd64,arm64 -cc clang sampler bpf/sample.bpf.c -- -Wall -Werror

// bpfSampler samples with a BPF program on perf events.
type bpfSampler struct {
	objects samplerObjects
	threads map[int]threads[int] // descriptors of events by process
	files   map[fileKey]struct{} // the files in the BPF map
}

func newBPFSampler() (sampler, error) {
	_ = rlimit.RemoveMemlock() // before Linux 5.11, maps count as locked memory; if the limit is too low, the load fails
	s := &bpfSampler{threads: map[int]threads[int]{}, files: map[fileKey]struct{}{}}
	if err := loadSamplerObjects(&s.objects, nil); err != nil {
		return nil, fmt.Errorf("cannot load the BPF program of the sampler: %w", err)
	}
	return s, nil
}

func (*bpfSampler) method() ledger.Method { return ledger.BPF }

func (s *bpfSampler) attach(pid int) error {
	if s.threads[pid] == nil {
		key := uint32(pid)
		if err := s.objects.Daemons.Put(&key, &samplerWork{}); err != nil {
			return fmt.Errorf("cannot sample process %d: %w", pid, err)
		}
		s.threads[pid] = threads[int]{}
	}
	return s.threads[pid].update(pid, s.open, closeEvent)
}

// open opens a perf event of a thread. The event runs the BPF program.
func (s *bpfSampler) open(tid int) (fd int, err error) {
	fd, err = unix.PerfEventOpen(attributes(), tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, s.objects.Sample.FD()); err == nil {
		err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

func closeEvent(fd int) { unix.Close(fd) }

func (s *bpfSampler) detach(pid int) {
	s.threads[pid].close(closeEvent)
	delete(s.threads, pid)
	key := uint32(pid)
	_ = s.objects.Daemons.Delete(&key) // the key may be missing
	for file := range s.files {
		if file.Process == key {
			s.remove(file)
		}
	}
}

func (s *bpfSampler) remove(file fileKey) {
	delete(s.files, file)
	_ = s.objects.Files.Delete(&file) // the key may be missing
}

func (s *bpfSampler) watch(pid int, open *openFiles) error {
	files := open.uses()
	for file := range s.files {
		if _, isWatched := files[file]; !isWatched && int(file.Process) == pid {
			s.remove(file)
		}
	}
	for file := range files {
		if _, exists := s.files[file]; exists {
			continue
		}
		if err := s.objects.Files.Put(&file, &samplerIo{}); err != nil {
			return fmt.Errorf("cannot watch the files of process %d: %w", pid, err)
		}
		s.files[file] = struct{}{}
	}
	return nil
}

// read returns the samples of a process since it was attached.
func (s *bpfSampler) read(pid int) (c counts, err error) {
	key := uint32(pid)
	var work samplerWork
	if err := s.objects.Daemons.Lookup(&key, &work); err != nil {
		return c, fmt.Errorf("cannot read the samples of process %d: %w", pid, err)
	}
	c = counts{user: work.User, calls: work.Calls, rest: ioCount{work.Rest.Read, work.Rest.Write}, files: map[fileKey]ioCount{}}
	for file := range s.files {
		if file.Process != key {
			continue
		}
		var io samplerIo
		if err := s.objects.Files.Lookup(&file, &io); err != nil {
			return c, fmt.Errorf("cannot read the samples of process %d: %w", pid, err)
		}
		c.files[file] = ioCount{io.Read, io.Write}
	}
	return c, nil
}

func (s *bpfSampler) Close() error {
	for _, t := range s.threads {
		t.close(closeEvent)
	}
	return s.objects.Close()
}
