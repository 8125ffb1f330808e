package trace

import "io"

// aheadBuffers is the number of buffers: one is parsed while the other is filled.
const aheadBuffers = 2

// An ahead reads in another goroutine, so that a file is decompressed in parallel to the parsing.
type ahead struct {
	empty chan []byte // to be filled
	full  chan filled // in the order of the source; closed when the goroutine has ended
	now   filled
	rest  []byte // of now: not yet handed out
}

// filled is the result of a read. The error comes after its bytes.
type filled struct {
	buf []byte
	n   int
	err error
}

// newAhead starts to read; close ends it.
func newAhead(in io.Reader) *ahead {
	a := &ahead{empty: make(chan []byte, aheadBuffers), full: make(chan filled, aheadBuffers)}
	for range aheadBuffers {
		a.empty <- make([]byte, bufferBytes)
	}
	go a.fill(in)
	return a
}

// fill reads until the source's end, an error, or the end of the buffers that come in.
func (a *ahead) fill(in io.Reader) {
	defer close(a.full)
	for buf := range a.empty {
		f := filled{buf: buf}
		for f.n < len(buf) && f.err == nil {
			var n int
			n, f.err = in.Read(buf[f.n:])
			f.n += n
		}
		a.full <- f // has the capacity for all buffers
		if f.err != nil {
			return
		}
	}
}

// Read implements io.Reader: the source's bytes, and then its error.
func (a *ahead) Read(p []byte) (int, error) {
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

// close ends the goroutine and waits for it: the source is not read after that. Later reads return io.EOF.
func (a *ahead) close() {
	if a.empty == nil {
		return
	}
	close(a.empty)
	for range a.full { // until it is closed
	}
	*a = ahead{now: filled{err: io.EOF}}
}
