// Command copier is a logging binary of containerd (binary://): it copies the output of a container to a log. It works as the json-file
// logger of nerdctl 0.14: a thread for stdout, a thread for stderr, and a JSON object for each line.
//
// With -charge, it accounts for its CPU time as the logger of "cgroup extension for CPU resource accounting" (IPSJ SIG Technical Report,
// 2022, section 6.3.1): each thread measures its own time, user and system, and writes it to cpu.cfs_borrowing_us of the container.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	log := flag.String("log", "", "`file` of the log")
	charge := flag.String("charge", "", "`file` that receives the CPU time of each thread, in microseconds")
	flag.Parse()
	if *log == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: copier -log FILE [-charge FILE], as a logging binary of containerd")
		os.Exit(2)
	}
	if err := run(*log, *charge); err != nil {
		fmt.Fprintln(os.Stderr, "copier:", err)
		os.Exit(1)
	}
}

// run copies until both pipes have ended. containerd passes stdout, stderr and the write end of a pipe as the descriptors 3, 4 and 5. A byte
// in the pipe means that the container can start.
func run(log, charge string) error {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	ready := os.NewFile(5, "ready")
	if _, err := ready.Write([]byte{0}); err != nil {
		return err
	}
	if err := ready.Close(); err != nil {
		return err
	}
	c := &copier{encoder: json.NewEncoder(file), charge: charge}
	failed := make(chan error, 2)
	go func() { failed <- c.copy(os.NewFile(3, "stdout"), "stdout") }()
	go func() { failed <- c.copy(os.NewFile(4, "stderr"), "stderr") }()
	return errors.Join(<-failed, <-failed)
}

// A copier writes lines of several streams to a log.
type copier struct {
	mu      sync.Mutex
	encoder *json.Encoder
	charge  string // file for the charges; "": no charges
}

// An entry is a line of the log.
type entry struct {
	Log    string    `json:"log,omitempty"`
	Stream string    `json:"stream,omitempty"`
	Time   time.Time `json:"time"`
}

// copy copies the lines of a stream, in a thread of its own.
func (c *copier) copy(r io.Reader, stream string) error {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	m := &meter{name: c.charge}
	defer m.close()
	lines := bufio.NewReader(meteredReader{r, m})
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := c.write(entry{line, stream, time.Now().UTC()}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *copier) write(e entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.encoder.Encode(e)
}

// A meteredReader charges the time since the last read before the next read, because a read can wait for long.
type meteredReader struct {
	io.Reader
	meter *meter
}

func (r meteredReader) Read(p []byte) (int, error) {
	if err := r.meter.charge(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// minCharge is the CPU time that a charge has at least, so that the charges themselves cost little.
const minCharge = time.Millisecond

// A meter charges the CPU time of the current thread to a group.
type meter struct {
	name    string   // of the file; "": no charges
	file    *os.File // nil before the first charge
	charged time.Duration
}

// charge charges the time since the last charge, if it is at least minCharge. runc creates the group after the start of the copier, so the
// file can be missing at first. The group ends before the copier has copied the last lines; their time is lost.
func (m *meter) charge() error {
	if m.name == "" {
		return nil
	}
	used, err := threadTime()
	if err != nil || used-m.charged < minCharge {
		return err
	}
	if m.file == nil {
		m.file, err = os.OpenFile(m.name, os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	us := (used - m.charged).Microseconds()
	if _, err := fmt.Fprintln(m.file, us); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	m.charged += time.Duration(us) * time.Microsecond
	return nil
}

func (m *meter) close() {
	if m.file != nil {
		m.file.Close()
	}
}

// threadTime returns the CPU time of the current thread. The kernel scales the sum of user and system time to the exact run time.
func threadTime() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
