package cgroup

import (
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// To open a file of the kernel's and to close it takes ten times as long as to read what is in it. A process that looks at the same
// groups again and again keeps their files open.

// kept are the files that are open, by their paths. Who reads or writes one has the lock for reading.
var kept struct {
	sync.RWMutex
	most  int // how many; 0: none
	round uint32
	files map[string]*keptFile
}

type keptFile struct {
	fd     int
	used   atomic.Uint32 // in which round
	isCalm atomic.Bool   // a list of CPUs: its group has been told (balance_v1.go)
}

// KeepOpen has this process keep the files of the CPU controllers open once it has read them, so many at most: for those that run on. Of a
// group that is no more, or was made anew, nothing else is read than without. With 0 it closes them.
func KeepOpen(most int) {
	kept.Lock()
	defer kept.Unlock()
	if kept.files == nil {
		kept.files = map[string]*keptFile{}
	}
	if kept.most = most; most == 0 {
		closeKept(func(*keptFile) bool { return true })
	}
}

// CloseUnused closes the files that were kept open and not used since the last call but one.
func CloseUnused() {
	kept.Lock()
	defer kept.Unlock()
	kept.round++
	closeKept(func(f *keptFile) bool { return kept.round-f.used.Load() > 2 })
}

// closeKept closes some of the files that are kept. They are locked.
func closeKept(which func(*keptFile) bool) {
	for path, f := range kept.files {
		if which(f) {
			unix.Close(f.fd)
			delete(kept.files, path)
		}
	}
}

// withKept does something with a file that is kept open, or is from now on. Where it is false, it was not done: whoever wants it
// opens the file, and finds out why.
func withKept(path string, do func(*keptFile) error) (done bool) {
	f, mayKeep := useKept(path, do)
	if f == nil && mayKeep && keep(path) {
		f, _ = useKept(path, do)
	}
	return f != nil
}

// useKept returns the file with which it was done.
func useKept(path string, do func(*keptFile) error) (f *keptFile, mayKeep bool) {
	kept.RLock()
	f, mayKeep = kept.files[path], len(kept.files) < kept.most
	var err error
	if f != nil {
		f.used.Store(kept.round)
		err = do(f)
	}
	kept.RUnlock()
	if err != nil { // its group is no more, and there may be another one
		kept.Lock()
		defer kept.Unlock()
		closeKept(func(other *keptFile) bool { return other == f })
		return nil, false
	}
	return f, mayKeep
}

// keep opens a file that stays open. v1's list of processes cannot: by the same open file it is that of up to a second before.
func keep(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	if !strings.HasPrefix(name, "cpu.") && !strings.HasPrefix(name, "cpuset.") {
		return false
	}
	flags := unix.O_RDONLY
	if name == cpusFile {
		flags = unix.O_RDWR
	}
	fd, err := open(path, flags)
	if err != nil {
		return false
	}
	kept.Lock()
	defer kept.Unlock()
	if kept.files[path] != nil || len(kept.files) >= kept.most {
		unix.Close(fd)
		return kept.files[path] != nil
	}
	kept.files[path] = &keptFile{fd: fd}
	return true
}

// readKept reads a kernel file that is kept open, and is not long.
func readKept(path string) (content []byte, ok bool) {
	var buffer [512]byte
	ok = withKept(path, func(f *keptFile) error {
		n, err := unix.Pread(f.fd, buffer[:], 0)
		if err == nil && n == len(buffer) {
			err = unix.EFBIG
		}
		content = buffer[:max(n, 0)]
		return err
	})
	return content, ok
}

// writeKept writes to one of the lists of CPUs that are kept open.
func writeKept(path, value string) (ok bool) {
	return strings.HasSuffix(path, "/"+cpusFile) && withKept(path, func(f *keptFile) error {
		if mayCalm.Load() && f.isCalm.CompareAndSwap(false, true) {
			calm(path)
		}
		_, err := unix.Pwrite(f.fd, []byte(value), 0)
		return err
	})
}

// keepsOpen reports whether files are kept at all.
func keepsOpen() bool {
	kept.RLock()
	defer kept.RUnlock()
	return kept.most > 0
}
