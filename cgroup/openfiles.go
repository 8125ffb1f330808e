package cgroup

import (
	"bytes"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/kernelfs"
)

// openFiles is a cache of open file descriptors of kernel files: files with CPU lists, and files of the memory controller
// (cachedFiles). It is for a process that often changes the CPUs of the same groups, or often reads their memory. Opening and
// closing a kernel file takes ten times as long as reading it. The zero value caches nothing.
//
// Other files are not cached. The kernel needs a page for each open file, and an open cgroup.procs of v1 can return a list of processes
// that is up to a second old.
type openFiles struct {
	mutex sync.Mutex
	limit int                  // maximum number of files; 0: no caching
	round int                  // number of calls of CloseUnused so far
	files map[string]*openFile // by path
}

type openFile struct {
	fd         int
	isWritable bool
	lastRound  int  // value of openFiles.round at the last use
	users      int  // number of calls of use that use the file now
	isDropped  bool // no longer in the cache; the last user closes the file
}

// cachedFiles holds the names of the files that the cache accepts. Candor reads these files of every container and pod.
var cachedFiles = map[string]bool{
	cpusFile: true, cpusFile + ".effective": true, "cpuset.effective_cpus": true,
	memoryStat: true, memoryV1.limit: true, memoryV1.usage: true, memswV1.limit: true, memswV1.usage: true,
	maxV2.limit: true, maxV2.usage: true, highV2.limit: true, swapV2.limit: true, swapV2.usage: true,
}

// KeepOpen sets the maximum number of files with CPU lists that t holds open. It is for long-running processes. Caching never
// changes the result: if a group was removed or recreated, t opens the group's file again. A limit of 0 closes all cached files;
// Close does the same.
func (t *Tree) KeepOpen(limit int) { t.open.setLimit(limit) }

// KeepMemoryOpen is like KeepOpen, for the files that ReadMemory reads. A group needs about 5 files, and each of its ancestors about 3.
func (t *Tree) KeepMemoryOpen(limit int) { t.memoryOpen.setLimit(limit) }

// CloseUnused closes the cached files that were not used in the last two intervals between calls of CloseUnused. The caller calls it at
// regular intervals.
func (t *Tree) CloseUnused() {
	t.open.closeUnused()
	t.memoryOpen.closeUnused()
}

func (o *openFiles) setLimit(limit int) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.files == nil {
		o.files = map[string]*openFile{}
	}
	if o.limit = limit; limit == 0 {
		for path, f := range o.files {
			o.drop(path, f)
		}
	}
}

// isOn reports whether the cache can hold files.
func (o *openFiles) isOn() bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.limit > 0
}

func (o *openFiles) closeUnused() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.round++
	for path, f := range o.files {
		if o.round-f.lastRound > 2 {
			o.drop(path, f)
		}
	}
}

// drop removes a file from the cache. The caller must hold the mutex.
func (o *openFiles) drop(path string, f *openFile) {
	if o.files[path] == f {
		delete(o.files, path)
	}
	if f.isDropped = true; f.users == 0 {
		unix.Close(f.fd)
	}
}

// use calls do with the descriptor of a cached file. If the file is not in the cache, use opens and caches the file. done is false if
// the cache cannot serve the call; then the caller must open the file without the cache. err is the error of do.
func (o *openFiles) use(dir, file string, needsWrite bool, do func(fd int) error) (done bool, err error) {
	if !cachedFiles[file] {
		return false, nil
	}
	path := dir + "/" + file
	f := o.acquire(path, file)
	if f == nil {
		return false, nil
	}
	if done = f.isWritable || !needsWrite; done {
		for err = unix.EINTR; err == unix.EINTR; {
			err = do(f.fd)
		}
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if f.users--; f.isDropped && f.users == 0 {
		unix.Close(f.fd)
	} else if err == unix.ENODEV && !f.isDropped { // the group was removed, and a new group can have the same path
		o.drop(path, f)
	}
	if err == unix.ENODEV {
		return false, nil
	}
	return done, err
}

// acquire returns a cached file and counts the caller as a user. It returns nil if the file is not cached and cannot be added.
func (o *openFiles) acquire(path, file string) *openFile {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	f := o.files[path]
	if f == nil {
		if len(o.files) >= o.limit {
			return nil
		}
		if f = openCached(path, file); f == nil {
			return nil
		}
		o.files[path] = f
	}
	f.lastRound = o.round
	f.users++
	return f
}

// openCached opens a file for the cache, or returns nil. cpuset.cpus gets write access if this process has the right to write it; Candor
// only reads the other cached files.
func openCached(path, file string) *openFile {
	if file == cpusFile {
		if fd, err := open(path, unix.O_RDWR); err == nil {
			return &openFile{fd: fd, isWritable: true}
		}
	}
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		return nil
	}
	return &openFile{fd: fd}
}

// maxCachedLength bounds the length of a cached file in bytes. The longest CPU list names every second CPU below cpuset.Max.
const maxCachedLength = 8192

// read returns the content of a file with a CPU list or a number, without the final newline. It uses the cache if possible.
func (o *openFiles) read(dir, file string) ([]byte, error) { return o.readSized(dir, file, 512) }

// readSized is like read, for a file of about size bytes at most.
func (o *openFiles) readSized(dir, file string, size int) (content []byte, err error) {
	if kernelfs.IsInjected() {
		return readOne(dir, file)
	}
	done, err := o.use(dir, file, false, func(fd int) error {
		content = make([]byte, size)
		n, err := unix.Pread(fd, content, 0)
		if err == nil && n == len(content) {
			content = make([]byte, maxCachedLength)
			n, err = unix.Pread(fd, content, 0)
		}
		content = content[:max(n, 0)]
		return err
	})
	if !done || err != nil || len(content) == maxCachedLength {
		return readOne(dir, file)
	}
	return bytes.TrimSuffix(content, []byte("\n")), nil
}

// write writes a CPU list to a file, with the cache if possible. The error is a *WriteError.
func (o *openFiles) write(dir, file, value string) error {
	path := dir + "/" + file
	if err := kernelfs.FaultOf(kernelfs.WriteAccess, path); err != nil {
		return &WriteError{path, value, err}
	}
	done, err := o.use(dir, file, true, func(fd int) error {
		_, err := unix.Pwrite(fd, []byte(value), 0)
		return err
	})
	switch {
	case err != nil:
		return &WriteError{path, value, err}
	case done:
		return nil
	}
	return writeFile(path, value)
}
