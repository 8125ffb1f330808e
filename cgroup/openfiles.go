package cgroup

import (
	"bytes"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/kernelfs"
)

// Opening and closing a kernel file takes ten times as long as reading it. A process that often moves the same groups caches the open
// files with their CPU lists. (The kernel needs a page for each open file, so only these files are cached. Besides, an open v1 file
// returns the group's processes of up to a second ago.)

// openFiles is a cache of open files with CPU lists. The zero value caches nothing.
type openFiles struct {
	mutex sync.Mutex
	limit int                  // maximum number of files; 0: no caching
	round int                  // number of calls of CloseUnused
	files map[string]*openFile // by path
}

type openFile struct {
	fd         int
	isWritable bool
	lastRound  int  // of the last use
	users      int  // number of present users
	isDropped  bool // the last user closes it
}

// cachedFiles holds the names of the cached files. As many of them are read as there are containers or pods.
var cachedFiles = map[string]bool{cpusFile: true, cpusFile + ".effective": true, "cpuset.effective_cpus": true}

// KeepOpen caches up to limit open files with CPU lists, for long-running processes. Caching never changes the result: if a
// group was removed or recreated, its file is reopened. 0 closes all files, and so does Close.
func (t *Tree) KeepOpen(limit int) { t.open.setLimit(limit) }

// CloseUnused closes the cached files that were not used since the last call but one.
func (t *Tree) CloseUnused() { t.open.closeUnused() }

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

// drop removes a file from the cache. The caller holds the lock.
func (o *openFiles) drop(path string, f *openFile) {
	if o.files[path] == f {
		delete(o.files, path)
	}
	if f.isDropped = true; f.users == 0 {
		unix.Close(f.fd)
	}
}

// use calls do with a cached file, and caches it if necessary. If done is false, the caller must open the file. err is the error
// of do.
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
	} else if err == unix.ENODEV && !f.isDropped { // its group was removed: another group can have the path
		o.drop(path, f)
	}
	if err == unix.ENODEV {
		return false, nil
	}
	return done, err
}

// acquire returns a cached file for a caller, or nil.
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

// openCached opens a file for the cache, with write access if it is ever written and this process may write it.
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

// maxListLength bounds the length of a CPU list: every second CPU of cpuset.Max.
const maxListLength = 8192

// read returns the content of a file with a list, without the final newline.
func (o *openFiles) read(dir, file string) (content []byte, err error) {
	if kernelfs.IsInjected() {
		return readOne(dir, file)
	}
	done, err := o.use(dir, file, false, func(fd int) error {
		content = make([]byte, 512)
		n, err := unix.Pread(fd, content, 0)
		if err == nil && n == len(content) {
			content = make([]byte, maxListLength)
			n, err = unix.Pread(fd, content, 0)
		}
		content = content[:max(n, 0)]
		return err
	})
	if !done || err != nil {
		return readOne(dir, file)
	}
	return bytes.TrimSuffix(content, []byte("\n")), nil
}

// write writes a list. The error is a *WriteError.
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
