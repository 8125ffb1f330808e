package experiment

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
)

// tailSize is the number of bytes that are retained of a program's output.
const tailSize = 1 << 20

// A tail retains the end of a program's output.
type tail struct {
	read *os.File
	data []byte
	done chan struct{}
}

// newTail returns a tail and the file for the program's output.
func newTail() (*tail, *os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	t := &tail{read: read, done: make(chan struct{})}
	go t.collect()
	return t, write, nil
}

func (t *tail) collect() {
	defer close(t.done)
	defer t.read.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := t.read.Read(buffer)
		t.data = append(t.data, buffer[:n]...)
		if len(t.data) > 2*tailSize {
			t.data = append(t.data[:0], t.data[len(t.data)-tailSize:]...)
		}
		if err != nil {
			return
		}
	}
}

// last waits at most a second until the output is complete, and returns the end of the output. It drops later output of processes that the
// program left behind.
func (t *tail) last() []byte {
	select {
	case <-t.done:
	case <-time.After(time.Second): // a process still has the pipe open
		_ = t.read.SetReadDeadline(time.Now()) // fails only if collect has closed the file
		<-t.done
	}
	return t.data[max(0, len(t.data)-tailSize):]
}

// lastLine quotes the last line of an output, to explain why a program failed.
func lastLine(output []byte) string {
	output = bytes.TrimSpace(output)
	line := string(output[bytes.LastIndexByte(output, '\n')+1:])
	line = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, line)
	if line == "" {
		return ""
	}
	return fmt.Sprintf(": %.200s", line)
}
