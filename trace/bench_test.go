package trace

import (
	"path/filepath"
	"testing"
)

// BenchmarkReaders reads whole traces and reports events per second. 55 % of google2011's rows are events.
func BenchmarkReaders(b *testing.B) {
	dir := realTraces(b)
	day := "synthetic:days=1"
	r, err := Open(day, Options{})
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "day.ctrace")
	if _, err := Import(b.Context(), file, r); err != nil {
		b.Fatal(err)
	}
	for _, test := range []struct{ name, spec string }{
		{"google2011", "google2011:" + dir + "/google2011"}, {"openb", "openb:" + dir + "/openb"}, {"synthetic", day}, {"ctrace", file},
	} {
		b.Run(test.name, func(b *testing.B) {
			events := 0
			for b.Loop() {
				r, err := Open(test.spec, Options{})
				if err != nil {
					b.Fatal(err)
				}
				events += drain(b, r)
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
