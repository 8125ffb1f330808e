package trace

import "io"

// aheadBuffers is the number of buffers: the caller parses one buffer while the goroutine fills the other.
const aheadBuffers = 2

// A readAhead reads from its source in another goroutine, so that a file is decompressed in parallel to the parsing.
type readAhead struct {
	empty chan []byte     // buffers to fill
	full  chan readResult // filled buffers in the order of the source; closed when the goroutine has ended
	now   readResult
	rest  []byte // the unread part of now
}

// A readResult is a filled buffer. Read returns the error after the bytes.
type readResult struct {
	buf []byte
	n   int
	err error
}

// newReadAhead starts the goroutine. The caller must call close.
func newReadAhead(in io.Reader) *readAhead {
	a := &readAhead{empty: make(chan []byte, aheadBuffers), full: make(chan readResult, aheadBuffers)}
	for range aheadBuffers {
		a.empty <- make([]byte, bufferBytes)
	}
	go a.fill(in)
	return a
}

// fill fills the buffers from the channel empty until the source ends or fails, or the channel is closed.
func (a *readAhead) fill(in io.Reader) {
	defer close(a.full)
	for buf := range a.empty {
		f := readResult{buf: buf}
		for f.n < len(buf) && f.err == nil {
			var n int
			n, f.err = in.Read(buf[f.n:])
			f.n += n
		}
		a.full <- f // never blocks: the channel has the capacity for all buffers
		if f.err != nil {
			return
		}
	}
}

// Read implements io.Reader. It returns the bytes of the source, and then the error of the source.
func (a *readAhead) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.buf != nil {
			a.empty <- a.now.buf
		}
		a.now = <-a.full
		a.rest = a.now.buf[:a.now.n]
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// close stops the goroutine, and waits until it has ended, so that the source can be closed. Later reads return io.EOF.
func (a *readAhead) close() {
	if a.empty == nil {
		return
	}
	close(a.empty)
	for range a.full { // until it is closed
	}
	*a = readAhead{now: readResult{err: io.EOF}}
}
