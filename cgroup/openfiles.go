package cgroup

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Opening and closing a kernel file takes ten times as long as reading it. A process that often moves the same groups caches the open
// files with their CPU lists. (The kernel needs a page for each open file, so only these files are cached. Besides, an open v1 file
// returns the group's processes of up to a second ago.)

// kept are the open files, by path.
var kept struct {
	sync.Mutex
	most  int // maximum; 0: no caching
	round int
	files map[string]*keptFile
}

type keptFile struct {
	fd     int
	writes bool // it is open for writing, too
	used   int  // in which round
	users  int  // number of present users
	gone   bool // the last user closes it
}

// isKept are the files of which as many as there are containers are read, or as there are pods.
var isKept = map[string]bool{cpusFile: true, cpusFile + ".effective": true, "cpuset.effective_cpus": true}

// KeepOpen caches up to a number of open files with CPU lists, for long-running processes. Caching never changes the result: if a
// group was removed or recreated, its file is reopened. 0 closes all files.
func KeepOpen(most int) {
	kept.Lock()
	defer kept.Unlock()
	if kept.files == nil {
		kept.files = map[string]*keptFile{}
	}
	if kept.most = most; most == 0 {
		for path, f := range kept.files {
			drop(path, f)
		}
	}
}

// CloseUnused closes the cached files that were not used since the last call but one.
func CloseUnused() {
	kept.Lock()
	defer kept.Unlock()
	kept.round++
	for path, f := range kept.files {
		if kept.round-f.used > 2 {
			drop(path, f)
		}
	}
}

// drop removes a file from the cache. The caller holds the lock.
func drop(path string, f *keptFile) {
	if kept.files[path] == f {
		delete(kept.files, path)
	}
	if f.gone = true; f.users == 0 {
		unix.Close(f.fd)
	}
}

// withKept calls do with a cached file, and caches it if necessary. If done is false, the caller must open the file. err is the error
// of do.
func withKept(dir, file string, writes bool, do func(fd int) error) (done bool, err error) {
	if !isKept[file] {
		return false, nil
	}
	path := dir + "/" + file
	f := useKept(path, file)
	if f == nil {
		return false, nil
	}
	if done = f.writes || !writes; done {
		for err = unix.EINTR; err == unix.EINTR; {
			err = do(f.fd)
		}
	}
	kept.Lock()
	defer kept.Unlock()
	if f.users--; f.gone && f.users == 0 {
		unix.Close(f.fd)
	} else if err == unix.ENODEV && !f.gone { // its group was removed: another group can have the path
		drop(path, f)
	}
	if err == unix.ENODEV {
		return false, nil
	}
	return done, err
}

// useKept returns a cached file for a caller, or nil.
func useKept(path, file string) *keptFile {
	kept.Lock()
	defer kept.Unlock()
	f := kept.files[path]
	if f == nil {
		if len(kept.files) >= kept.most {
			return nil
		}
		if f = openKept(path, file); f == nil {
			return nil
		}
		kept.files[path] = f
	}
	f.used = kept.round
	f.users++
	return f
}

// openKept opens a file that stays open, for writing too if it is ever written and this process may.
func openKept(path, file string) *keptFile {
	if file == cpusFile {
		if fd, err := open(path, unix.O_RDWR); err == nil {
			return &keptFile{fd: fd, writes: true}
		}
	}
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		return nil
	}
	return &keptFile{fd: fd}
}

// longestList bounds the length of a CPU list: every second CPU of cpuset.Max.
const longestList = 8192

// readKept reads a cached list.
func readKept(dir, file string) (content []byte, ok bool) {
	ok, err := withKept(dir, file, false, func(fd int) error {
		content = make([]byte, 512)
		n, err := unix.Pread(fd, content, 0)
		if err == nil && n == len(content) {
			content = make([]byte, longestList)
			n, err = unix.Pread(fd, content, 0)
		}
		content = content[:max(n, 0)]
		return err
	})
	return content, ok && err == nil
}

// writeKept writes a cached list.
func writeKept(dir, file, value string) (done bool, err error) {
	return withKept(dir, file, true, func(fd int) error {
		_, err := unix.Pwrite(fd, []byte(value), 0)
		return err
	})
}
