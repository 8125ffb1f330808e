package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestCopy: each line becomes an entry, also a last line without an end.
func TestCopy(t *testing.T) {
	var log bytes.Buffer
	c := &copier{encoder: json.NewEncoder(&log)}
	if err := c.copy(strings.NewReader("one\n\ntwo"), "stderr"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for lines := json.NewDecoder(&log); ; {
		var e entry
		if err := lines.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if e.Stream != "stderr" || time.Since(e.Time) > time.Minute {
			t.Errorf("%+v", e)
		}
		got = append(got, e.Log)
	}
	if strings.Join(got, "|") != "one\n|\n|two" {
		t.Errorf("%q", got)
	}
}

// A busyReader uses CPU time in each read.
type busyReader struct {
	t     *testing.T
	reads int
	each  time.Duration
	used  time.Duration // by all reads
}

func (r *busyReader) Read(p []byte) (int, error) {
	if r.reads--; r.reads < 0 {
		return 0, io.EOF
	}
	start := r.threadTime()
	for r.threadTime()-start < r.each {
	}
	r.used += r.threadTime() - start
	return copy(p, "line\n"), nil
}

func (r *busyReader) threadTime() time.Duration {
	used, err := threadTime()
	if err != nil {
		r.t.Error(err)
	}
	return used
}

// TestCharge: the charges are the CPU time of the thread, except less than minCharge. A missing file delays a charge.
func TestCharge(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	file := filepath.Join(t.TempDir(), "cpu.cfs_borrowing_us")
	r := &busyReader{t: t, reads: 20, each: 300 * time.Microsecond}
	m := &meter{name: file}
	defer m.close()
	start := r.threadTime()
	m.charged = start // the thread has run other code before
	metered := meteredReader{r, m}
	for n := 0; ; n++ {
		if n == 10 {
			if err := os.WriteFile(file, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := metered.Read(make([]byte, 16)); err != nil {
			break
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var sum, first time.Duration
	for line := range strings.FieldsSeq(string(text)) {
		us, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		d := time.Duration(us) * time.Microsecond
		if d < minCharge {
			t.Errorf("a charge of %s", d)
		}
		if first == 0 {
			first = d
		}
		sum += d
	}
	if all := r.threadTime() - start; sum > all || sum < r.used-minCharge-r.each || first < 10*r.each {
		t.Errorf("charges %q: sum %s, first %s; the thread used %s, its reads %s", text, sum, first, all, r.used)
	}
}
