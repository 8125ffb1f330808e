package trace

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// TestAhead: whatever the sizes of the reads on both sides, the bytes are the source's, and
// then comes its error, again and again.
func TestAhead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := bytes.Repeat([]byte("0123456789abcdef"), rapid.SampledFrom([]int{0, 1, 100, bufferBytes / 16, 3 * bufferBytes / 16, 40_001}).Draw(rt, "sixteens"))
		want := rapid.SampledFrom([]error{io.EOF, io.ErrUnexpectedEOF, os.ErrClosed}).Draw(rt, "error")
		var in io.Reader = io.MultiReader(bytes.NewReader(text), iotest.ErrReader(want))
		if rapid.Bool().Draw(rt, "with the error") {
			in = iotest.DataErrReader(in)
		}
		a := newAhead(in)
		defer a.close()
		var got []byte
		var err error
		part := make([]byte, rapid.IntRange(100, 2*bufferBytes).Draw(rt, "read"))
		for err == nil {
			var n int
			n, err = a.Read(part)
			got = append(got, part[:n]...)
		}
		_, again := a.Read(part)
		if !bytes.Equal(got, text) || err != want || again != want {
			rt.Fatalf("%d bytes, %v, %v; want %d, %v", len(got), err, again, len(text), want)
		}
	})
}

// TestAheadClose: after close nobody reads the source, and what is read is the end.
func TestAheadClose(t *testing.T) {
	source := &watched{in: endless{}}
	a := newAhead(source)
	if n, err := a.Read(make([]byte, 10)); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	full := a.full
	a.close()
	if _, more := <-full; more {
		t.Error("the goroutine is still there")
	}
	source.closed = true // a read from now on is an error of the race detector, too
	if _, err := a.Read(make([]byte, 10)); err != io.EOF || source.late {
		t.Errorf("%v, read after close: %v", err, source.late)
	}
	a.close()
}

// watched sees reads after its end.
type watched struct {
	in           io.Reader
	closed, late bool
}

func (w *watched) Read(p []byte) (int, error) {
	if w.closed {
		w.late = true
		return 0, errors.New("closed")
	}
	return w.in.Read(p)
}
