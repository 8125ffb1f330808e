package trace

import "io"

// aheadBuffers is the number of buffers: one is parsed while the other is filled.
const aheadBuffers = 2

// An ahead reads in another goroutine, so that a file is decompressed in parallel to the parsing.
type ahead struct {
	empty chan []byte // buffers to fill
	full  chan filled // filled buffers in the order of the source; closed when the goroutine has ended
	now   filled
	rest  []byte // bytes of now that Read has not returned yet
}

// filled is the result of a read. The error comes after its bytes.
type filled struct {
	buf []byte
	n   int
	err error
}

// newAhead starts the goroutine that reads in; close ends it.
func newAhead(in io.Reader) *ahead {
	a := &ahead{empty: make(chan []byte, aheadBuffers), full: make(chan filled, aheadBuffers)}
	for range aheadBuffers {
		a.empty <- make([]byte, bufferBytes)
	}
	go a.fill(in)
	return a
}

// fill is the goroutine. It fills empty buffers until the source ends or fails, or until close closes the channel empty.
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

// Read implements io.Reader. It returns the source's bytes, and after them the source's error.
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

// close ends the goroutine and waits for its end, so that the caller can close the source. Later reads return io.EOF.
func (a *ahead) close() {
	if a.empty == nil {
		return
	}
	close(a.empty)
	for range a.full { // until fill closes full
	}
	*a = ahead{now: filled{err: io.EOF}}
}
