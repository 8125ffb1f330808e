package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// TestAhead: for any sizes of the reads on both sides, the reader returns the bytes of the source. After
// them, each read returns the error of the source.
func TestAhead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := bytes.Repeat([]byte("0123456789abcdef"), rapid.SampledFrom([]int{0, 1, 100, bufferBytes / 16, 3 * bufferBytes / 16, 40_001}).Draw(rt, "sixteens"))
		want := rapid.SampledFrom([]error{io.EOF, io.ErrUnexpectedEOF, os.ErrClosed}).Draw(rt, "error")
		in := io.MultiReader(bytes.NewReader(text), iotest.ErrReader(want))
		if rapid.Bool().Draw(rt, "with the error") {
			in = iotest.DataErrReader(in)
		}
		a := newReadAhead(in)
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

// TestAheadClose: after close, the goroutine no longer reads the source, and reads return the end.
func TestAheadClose(t *testing.T) {
	source := &watched{in: endless{}}
	a := newReadAhead(source)
	if n, err := a.Read(make([]byte, 10)); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	full := a.full
	a.close()
	if _, more := <-full; more {
		t.Error("the goroutine is still there")
	}
	source.closed = true // the race detector also reports a later read
	if _, err := a.Read(make([]byte, 10)); err != io.EOF || source.late {
		t.Errorf("%v, read after close: %v", err, source.late)
	}
	a.close()
}

// watched is a reader that records whether it is read after closed is set.
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

// TestReadersEnd: readers of compressed files leave no goroutine behind: after a close before the end, after
// the end, and after a failure to open or read.
func TestReadersEnd(t *testing.T) {
	for name, fixture := range fixtures {
		if name == "kubectl" {
			continue // is not compressed
		}
		dir := t.TempDir()
		zip(t, fixture.dir, dir)
		spec := strings.Replace(strings.ReplaceAll(fixture.spec, "DIR", dir), ".csv", ".csv.gz", 1)
		for _, events := range []int{0, 1, 1 << 20} {
			r, err := Open(spec, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < events && err == nil; i++ {
				err = r.Next(&Event{})
			}
			if err := r.Close(); err != nil {
				t.Error(name, err)
			}
			noneAhead(t, name)
		}
		files, _ := filepath.Glob(dir + "/*")
		got := ""
		for _, file := range files { // breaks a further file each time
			if err := os.WriteFile(file, compress(t, pad([]byte("1,2\n3,4\n"))), 0o644); err != nil {
				t.Fatal(err)
			}
			got = readError(spec, Options{})
			noneAhead(t, name)
		}
		if got == "" {
			t.Errorf("%s: read broken files without an error", name)
		}
	}
}

// noneAhead checks that no goroutine reads ahead. It waits for goroutines that are about to end.
func noneAhead(t *testing.T, name string) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	for range 5000 {
		if !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("(*ahead).fill")) {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%s: a goroutine is left", name)
}

// pad appends comments to a file, so that the goroutine cannot read ahead to its end.
func pad(text []byte) []byte {
	comment := []byte("#" + strings.Repeat(" ", 1000) + "\n")
	return append(bytes.Clone(text), bytes.Repeat(comment, (aheadBuffers+2)*bufferBytes/1000)...)
}

// zip writes compressed and padded copies of the CSV files of a directory.
func zip(t *testing.T, from, to string) {
	t.Helper()
	paths, err := filepath.Glob(from + "/*.csv")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(path)+".gz"), compress(t, pad(text)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func compress(t *testing.T, text []byte) []byte {
	t.Helper()
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return zipped.Bytes()
}
