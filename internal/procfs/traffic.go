package procfs

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/candor-project/candor/internal/kernelfs"
)

// Written returns the bytes that a process has written by system calls, to files and other descriptors (/proc/PID/io, proc_pid_io(5)).
// The error is fs.ErrNotExist or ESRCH if the process has ended.
func Written(pid int) (uint64, error) {
	file := fmt.Sprintf("/proc/%d/io", pid)
	text, err := kernelfs.Read(file)
	if err != nil {
		return 0, err
	}
	n, err := parseWritten(string(text))
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return n, err
}

func parseWritten(text string) (uint64, error) {
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, "wchar:"); ok {
			return strconv.ParseUint(strings.TrimSpace(n), 10, 64)
		}
	}
	return 0, fmt.Errorf("no wchar in %.60q", text)
}

// Sent returns the bytes that a network device has sent, in the network namespace of a process (/proc/PID/net/dev). The error is
// fs.ErrNotExist or ESRCH if the process has ended, or if the network namespace has no such device.
func Sent(pid int, device string) (uint64, error) {
	file := fmt.Sprintf("/proc/%d/net/dev", pid)
	text, err := kernelfs.Read(file) // the bound is enough for about 8,000 devices
	if err != nil {
		return 0, err
	}
	n, err := parseSent(string(text), device)
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return n, err
}

func parseSent(text, device string) (uint64, error) {
	for line := range strings.Lines(text) {
		name, counts, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) != device {
			continue
		}
		const sent = 8 // column after eight columns of received data
		if fields := strings.Fields(counts); len(fields) > sent {
			return strconv.ParseUint(fields[sent], 10, 64)
		}
		return 0, fmt.Errorf("%s: must have 16 counts, has %.60q", device, counts)
	}
	return 0, fmt.Errorf("device %s: %w", device, fs.ErrNotExist)
}
