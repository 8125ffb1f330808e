package cgroup

import (
	"sync"

	"golang.org/x/sys/unix"
)

// To open a file of the kernel's and to close it takes ten times as long as to read what is in it. A process that moves the same
// groups again and again keeps their lists of CPUs open. (The kernel has a page for each open file, so that it is not all
// files; and by the same open file v1 tells for a second which processes a group had.)

// kept are the files that are open, by their paths.
var kept struct {
	sync.Mutex
	most  int // how many; 0: none
	round int
	files map[string]*keptFile
}

type keptFile struct {
	fd     int
	writes bool // it is open for writing, too
	used   int  // in which round
	users  int  // who have it now
	gone   bool // whoever has it last closes it
}

// isKept are the files of which as many as there are containers are read, or as there are pods.
var isKept = map[string]bool{cpusFile: true, cpusFile + ".effective": true, "cpuset.effective_cpus": true}

// KeepOpen has this process keep lists of CPUs open once it has read or written them, so many at most: for those that run on. Of a
// group that is no more, or was made anew, nothing else is read than without. With 0 it closes them.
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

// CloseUnused closes the files that were kept open and not used since the last call but one.
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

// drop has a file not be kept any more. The files are locked.
func drop(path string, f *keptFile) {
	if kept.files[path] == f {
		delete(kept.files, path)
	}
	if f.gone = true; f.users == 0 {
		unix.Close(f.fd)
	}
}

// withKept does something with a file that is kept open, or is from now on; where it is not done, the file has to be opened. The error
// is that of what was done.
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
	} else if err == unix.ENODEV && !f.gone { // its group is no more: there may be another one of that path
		drop(path, f)
	}
	if err == unix.ENODEV {
		return false, nil
	}
	return done, err
}

// useKept returns a file that is kept open for whoever calls it, nil if it cannot be.
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

// longestList is more than a list of CPUs takes: every second one of cpuset.Max.
const longestList = 8192

// readKept reads a list that is kept open.
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

// writeKept writes to a list that is kept open.
func writeKept(dir, file, value string) (done bool, err error) {
	return withKept(dir, file, true, func(fd int) error {
		_, err := unix.Pwrite(fd, []byte(value), 0)
		return err
	})
}
