package procfs

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestParseCPUTimes(t *testing.T) {
	const stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 400 500 60 70 8 90 100\ncpu17 10 0 0 0 0 0 0\nintr 5\n"
	got, err := ParseCPUTimes(stat)
	want := map[int]CPUTime{
		0:  {Programs: 60 * ms, Idle: 9000 * ms, Interrupts: 1300 * ms, Stolen: 80 * ms},
		17: {Programs: 100 * ms},
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"cpux 1 2 3 4 5 6 7\n", "cpu0 1 x 3 4 5 6 7\n", "cpu0 1 2 3 4 5 6 -7\n",
		"cpu99999 1 2 3 4 5 6 7\n", "cpu0 99999999999999 2 3 4 5 6 7\n"} {
		if got, err := ParseCPUTimes(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

func FuzzParseCPUTimes(f *testing.F) {
	f.Add("cpu  9 9\ncpu0 1 2 3 400 500 60 70 8 0 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		times, err := ParseCPUTimes(text)
		for cpu, c := range times {
			if err != nil || cpu < 0 || min(c.Programs, c.Interrupts, c.Stolen, c.Idle) < 0 {
				t.Errorf("%q: CPU %d %+v, %v", text, cpu, c, err)
			}
		}
	})
}

func TestReadCPUTimes(t *testing.T) {
	times, err := ReadCPUTimes()
	if err != nil || len(times) == 0 {
		t.Fatal(times, err)
	}
	for cpu, c := range times {
		if c.Programs+c.Idle+c.Interrupts+c.Stolen == 0 {
			t.Errorf("CPU %d did nothing since the boot, not even wait", cpu)
		}
	}
}

const thread = "42 (a) b (c) R 1 10 10 0 -1 4194560 0 0 0 0 12 30 0 0 20 0 1 0 777 0 0 1 1 1 1 1 1 0 0 0 0 0 0 0 17 3 0 0 0\n"

func TestParseThread(t *testing.T) {
	got, err := parseThread([]byte(thread))
	if want := (Thread{42, "a) b (c", 420 * ms, 3}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "42 a R", "x (a) R 1", "42 (a) R 1 2 3"} {
		if got, err := parseThread([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
}

func FuzzParseThread(f *testing.F) {
	f.Add([]byte(thread))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := parseThread(text); err != nil && got != (Thread{}) || got.Time < 0 {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	})
}

func TestThreads(t *testing.T) {
	threads, err := Threads(os.Getpid(), 1000)
	if err != nil || !slices.ContainsFunc(threads, func(th Thread) bool { return th.ID == os.Getpid() }) {
		t.Errorf("%v, %v", threads, err)
	}
	if few, err := Threads(os.Getpid(), 1); err != nil || len(few) != 1 {
		t.Errorf("at most one: %v, %v", few, err)
	}
	if _, err := Threads(1<<30, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such process: %v", err)
	}
}
