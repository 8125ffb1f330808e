//go:build amd64 || arm64

package sample

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/ledger"
)

//go:generate ../../bin/tools/bpf2go -target amd64,arm64 -cc clang sampler bpf/sample.bpf.c -- -Wall -Werror

// bpfSampler samples with a BPF program on perf events.
type bpfSampler struct {
	objects samplerObjects
	threads map[int]threads[int]            // descriptors of events by process
	files   map[uint32]map[fileKey]struct{} // the files in the BPF map, by process
	works   snapshot[uint32, samplerWork]   // content of the BPF map of the daemons
	ios     snapshot[fileKey, samplerIo]    // content of the BPF map of the files
	readAt  time.Time                       // time of the last reading of works and ios
}

func newBPFSampler() (sampler, error) {
	_ = rlimit.RemoveMemlock() // before Linux 5.11, maps count as locked memory; if the limit is too low, the load fails
	s := &bpfSampler{threads: map[int]threads[int]{}, files: map[uint32]map[fileKey]struct{}{}}
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
	delete(s.works.values, key)
	for file := range s.files[key] {
		s.remove(file)
	}
	delete(s.files, key)
}

func (s *bpfSampler) remove(file fileKey) {
	delete(s.files[file.Process], file)
	delete(s.ios.values, file)
	_ = s.objects.Files.Delete(&file) // the key may be missing
}

func (s *bpfSampler) watch(pid int, open *openFiles) error {
	files, watched := open.uses(), s.files[uint32(pid)]
	for file := range watched {
		if _, isWatched := files[file]; !isWatched {
			s.remove(file)
		}
	}
	for file := range files {
		if _, exists := watched[file]; exists {
			continue
		}
		if err := s.objects.Files.Put(&file, &samplerIo{}); err != nil {
			return fmt.Errorf("cannot watch the files of process %d: %w", pid, err)
		}
		if watched == nil {
			watched = map[fileKey]struct{}{}
			s.files[uint32(pid)] = watched
		}
		watched[file] = struct{}{}
	}
	return nil
}

// read returns the samples of a process since its attachment.
func (s *bpfSampler) read(pid int, at time.Time) (counts, error) {
	if at != s.readAt {
		err := errors.Join(s.works.read(s.objects.Daemons, len(s.threads)), s.ios.read(s.objects.Files, s.countFiles()))
		if err != nil {
			return counts{}, fmt.Errorf("cannot read the samples: %w", err)
		}
		s.readAt = at
	}
	key := uint32(pid)
	work := s.works.values[key] // missing: attached after the reading of the map, so it has no samples
	c := counts{user: work.User, calls: work.Calls, rest: ioCount{work.Rest.Read, work.Rest.Write}, files: make(map[fileKey]ioCount, len(s.files[key]))}
	for file := range s.files[key] {
		io := s.ios.values[file]
		c.files[file] = ioCount{io.Read, io.Write}
	}
	return c, nil
}

func (s *bpfSampler) countFiles() (n int) {
	for _, files := range s.files {
		n += len(files)
	}
	return n
}

// A snapshot is the content of a BPF hash map. A reading costs one or two system calls, whereas lookups would cost a system call for each
// key.
type snapshot[K comparable, V any] struct {
	values map[K]V
	keys   []K // buffers of read
	parts  []V
}

// read replaces the content. size is the expected number of keys.
func (s *snapshot[K, V]) read(from *ebpf.Map, size int) error {
	const spare = 64 // the kernel returns whole buckets
	if len(s.keys) < size+spare {
		s.keys, s.parts = make([]K, 2*size+spare), make([]V, 2*size+spare)
	}
	if s.values == nil {
		s.values = make(map[K]V, size)
	}
	clear(s.values)
	for cursor := new(ebpf.MapBatchCursor); ; {
		n, err := from.BatchLookup(cursor, s.keys, s.parts, nil)
		isLast := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !isLast {
			return err
		}
		for i := range n {
			s.values[s.keys[i]] = s.parts[i]
		}
		if isLast {
			return nil
		}
	}
}

func (s *bpfSampler) Close() error {
	for _, t := range s.threads {
		t.close(closeEvent)
	}
	return s.objects.Close()
}
