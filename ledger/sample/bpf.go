//go:build amd64 || arm64

package sample

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/candor-project/candor/ledger"
)

//go:generate ../../bin/tools/bpf2go -target amd64,arm64 -cc clang sampler bpf/sample.bpf.c -- -Wall -Werror

// bpfSampler samples with a BPF program on perf events.
type bpfSampler struct {
	objects samplerObjects
	threads threadEvents
	files   map[fileKey]struct{} // the files in the BPF map
}

func newBPFSampler() (sampler, error) {
	_ = rlimit.RemoveMemlock() // before Linux 5.11, maps count as locked memory; if the limit is too low, the load fails
	s := &bpfSampler{files: map[fileKey]struct{}{}}
	if err := loadSamplerObjects(&s.objects, nil); err != nil {
		return nil, fmt.Errorf("cannot load the BPF program of the sampler: %w", err)
	}
	s.threads.program = s.objects.Sample.FD()
	return s, nil
}

func (*bpfSampler) method() ledger.Method { return ledger.BPF }

func (s *bpfSampler) attach(pid int) error {
	key := uint32(pid)
	err := s.objects.Daemons.Update(&key, &samplerWork{}, ebpf.UpdateNoExist)
	if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fmt.Errorf("cannot sample process %d: %w", pid, err)
	}
	return s.threads.attach(pid)
}

func (s *bpfSampler) detach(pid int) {
	s.threads.detach(pid)
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
	s.threads.close()
	return s.objects.Close()
}
