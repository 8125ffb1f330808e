package trace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// realTraces is the folder of real traces; a test without it is skipped.
func realTraces(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../../shared/traces")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		t.Skip("no ../shared/traces beside the project: the real traces are not here")
	}
	return dir
}

// BenchmarkReaders reads whole traces; events/s is what counts.
func BenchmarkReaders(b *testing.B) {
	google := "google2011:" + realTraces(b) + "/google2011"
	compact := filepath.Join(b.TempDir(), "g.ctrace")
	r, err := Open(google, Options{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := Import(compact, r); err != nil {
		b.Fatal(err)
	}
	for name, spec := range map[string]string{"google2011": google, "compact": compact} {
		b.Run(name, func(b *testing.B) {
			events := 0
			for b.Loop() {
				r, err := Open(spec, Options{})
				if err != nil {
					b.Fatal(err)
				}
				events += drain(b, r)
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// drain reads a trace to its end and closes it.
func drain(t testing.TB, r Reader) int {
	t.Helper()
	n := 0
	var e Event
	for {
		err := r.Next(&e)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}
