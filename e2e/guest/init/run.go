package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/candor-project/candor/e2e/guest/report"
)

// run starts a command with the serial line as its output, waits for it, and looks for its leftovers. first reports that this
// process is PID 1 and must reap orphans.
func run(c report.Command, line *os.File, first bool) report.Result {
	r := report.Result{Name: c.Name, Code: 127}
	before := traces(first)
	start := time.Now()
	p, err := startCommand(c, line)
	if err != nil {
		r.Error = err.Error()
		return r
	}
	limit := c.Limit
	if limit == 0 {
		limit = time.Minute
	}
	var late atomic.Bool
	timer := time.AfterFunc(limit, func() {
		late.Store(true)
		syscall.Kill(-p.Pid, syscall.SIGKILL)
	})
	status := wait(p, first)
	timer.Stop()
	if late.Load() {
		r.Error = fmt.Sprintf("killed after %s", limit)
	}
	r.Wall = time.Since(start)
	r.Code = status.ExitStatus()
	if status.Signaled() {
		r.Code = 128 + int(status.Signal())
	}
	if first {
		reap()
	}
	r.Leftovers = slices.DeleteFunc(traces(first), func(t string) bool { return slices.Contains(before, t) })
	return r
}

func startCommand(c report.Command, line *os.File) (*os.Process, error) {
	path, err := exec.LookPath(c.Args[0])
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	dir := c.Dir
	if dir == "" {
		dir = "/"
	}
	return os.StartProcess(path, c.Args, &os.ProcAttr{
		Dir:   dir,
		Env:   append(os.Environ(), c.Env...),
		Files: []*os.File{null, line, line},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
}

// wait reaps p, and as PID 1 every orphan that ends before it.
func wait(p *os.Process, first bool) syscall.WaitStatus {
	which := p.Pid
	if first {
		which = -1
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(which, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid == p.Pid {
			return status
		}
	}
}

// reap takes the orphans that have ended meanwhile.
func reap() {
	for {
		if pid, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 {
			return
		}
	}
}

// traces lists possible leftovers of a command: cgroups, mounts and processes. systemd creates and ends cgroups and processes at
// any time: under systemd, only cgroups with Candor's name count.
func traces(first bool) []string {
	var all []string
	filepath.WalkDir(cgroupRoot, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (first || strings.Contains(p, "candor")) {
			all = append(all, "group "+p)
		}
		return nil
	})
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for l := range strings.Lines(string(mounts)) {
		if f := strings.Fields(l); len(f) > 4 {
			all = append(all, "mount "+f[4])
		}
	}
	if !first {
		return all
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		// Kernel threads have no command line; they come and go as they like.
		if words, _ := os.ReadFile(p + "/cmdline"); len(words) > 0 {
			pid, _ := strconv.Atoi(filepath.Base(p))
			all = append(all, fmt.Sprintf("process %d %s", pid, strings.ReplaceAll(strings.TrimRight(string(words), "\x00"), "\x00", " ")))
		}
	}
	return all
}
