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

// run runs a command with the serial line as its output, and then searches for leftovers of the command. isPID1 reports whether this
// process is PID 1, which must reap orphans.
func run(c report.Command, line *os.File, isPID1 bool) report.Result {
	r := report.Result{Name: c.Name, Code: 127}
	before := traces(isPID1)
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
	status := wait(p, isPID1)
	timer.Stop()
	if late.Load() {
		r.Error = fmt.Sprintf("killed after %s", limit)
	}
	r.Wall = time.Since(start)
	r.Code = status.ExitStatus()
	if status.Signaled() {
		r.Code = 128 + int(status.Signal())
	}
	if isPID1 {
		reap()
	}
	r.Leftovers = slices.DeleteFunc(traces(isPID1), func(t string) bool { return slices.Contains(before, t) })
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

// wait waits for the end of p. As PID 1 it also reaps every orphan that ends before p.
func wait(p *os.Process, isPID1 bool) syscall.WaitStatus {
	which := p.Pid
	if isPID1 {
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

// reap reaps the orphans that have ended.
func reap() {
	for {
		if pid, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 {
			return
		}
	}
}

// traces returns all current cgroups, mounts and processes. An entry that is new after a command is a leftover of the command. If systemd
// is PID 1, traces returns no processes, and only cgroups with "candor" in their paths, because systemd starts and ends other groups at any
// time.
func traces(isPID1 bool) []string {
	var all []string
	filepath.WalkDir(cgroupRoot, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (isPID1 || strings.Contains(p, "candor")) {
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
	if !isPID1 {
		return all
	}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		// Processes without a command line are kernel threads, which start and end at any time.
		if words, _ := os.ReadFile(p + "/cmdline"); len(words) > 0 {
			pid, _ := strconv.Atoi(filepath.Base(p))
			all = append(all, fmt.Sprintf("process %d %s", pid, strings.ReplaceAll(strings.TrimRight(string(words), "\x00"), "\x00", " ")))
		}
	}
	return all
}
