package ledgertables

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// logs are logs of the engines with two stamps.
var logs = map[string]string{
	"containerd": "2026-11-27T10:00:00.000000001Z stdout F y\n2026-11-27T10:00:00.000000002Z stdout F candor-stamp=17\n2026-11-27T10:00:00.000000003Z stdout P candor-stamp=9223372036854775807\n",
	"Podman":     "2026-11-27T10:00:00.000000001+00:00 stdout F candor-stamp=17\n2026-11-27T10:00:00.000000001+00:00 stdout F y\ncandor-stamp=9223372036854775807\n",
	"nerdctl":    `{"log":"candor-stamp=17\n","stream":"stdout","time":"2026-11-27T10:00:00.1Z"}` + "\n" + `{"log":"ycandor-stamp=9223372036854775807\n","stream":"stdout"}` + "\n",
	"no stamps":  "candor-stamp=\ncandor-stamp=17\ncandor-stamp=99999999999999999999\ncandor-stamp=99999999999999999999999999999999999\ncandor-stamcandor-stamp=9223372036854775807\n",
}

// TestFindStamps: the stamps of a log do not depend on its division into pieces.
func TestFindStamps(t *testing.T) {
	want := []time.Duration{17, 9223372036854775807}
	for name, log := range logs {
		for size := 1; size <= len(log); size++ {
			var got []time.Duration
			var piece []byte
			for part := range slices.Chunk([]byte(log), size) {
				piece = append(piece, part...)
				written, rest := FindStamps(piece)
				got = append(got, written...)
				piece = slices.Clone(piece[len(piece)-rest:])
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s in pieces of %d: %d, want %d", name, size, got, want)
			}
		}
	}
}

// TestFindStampsRest: the rest is the start of a stamp at the end of the piece.
func TestFindStampsRest(t *testing.T) {
	for piece, want := range map[string]int{
		"": 0, "y\n": 0, "c": 1, "y\ncandor-": 7, "candor-stamp": 12, "ccandor-stamp=": 13, "candor-stamp=17": 15, "candor-stamp=17\n": 0,
		"candor-stamp=" + strings.Repeat("9", 19): 32, "candor-stamp=" + strings.Repeat("9", 1000): 0, "candorcandor": 6,
	} {
		if _, rest := FindStamps([]byte(piece)); rest != want {
			t.Errorf("%q: rest of %d bytes, want %d", piece, rest, want)
		}
	}
}

func TestSummarize(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for _, test := range []struct {
		delays []time.Duration
		want   Delay
	}{
		{nil, Delay{}},
		{[]time.Duration{7}, Delay{1, 7, 7}},
		{[]time.Duration{9, 7}, Delay{2, 7, 9}},
		{[]time.Duration{9, 7, 8}, Delay{3, 8, 9}},
		{hundred, Delay{100, 50, 99}},
		{append(hundred, 101), Delay{101, 51, 100}},
	} {
		if got := Summarize(test.delays); got != test.want {
			t.Errorf("%v: %+v, want %+v", test.delays, got, test.want)
		}
	}
}

// TestTail: a tail counts the stamps that are written between Follow and Stop, also those that appear after Stop.
func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write := func(text string) {
		t.Helper()
		if _, err := log.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	stamp := func(at time.Duration) string { return fmt.Sprintf("y\n%s%d\n", marker, at) }
	write(stamp(Now()))
	earlier := Now()
	tail, err := Follow(file)
	if err != nil {
		t.Fatal(err)
	}
	write(strings.Repeat("y\n", 2<<20) + stamp(earlier)) // more than a piece
	first := Now()
	write(stamp(first))
	second := Now()
	text := stamp(second)
	write(text[:10])
	time.Sleep(20 * time.Millisecond)
	got := make(chan []time.Duration)
	go func() { got <- tail.Stop() }()
	time.Sleep(20 * time.Millisecond)
	write(text[10:])
	select {
	case <-got:
		t.Fatal("Stop did not wait for a later stamp")
	case <-time.After(20 * time.Millisecond):
	}
	write(stamp(Now()))
	delays := <-got
	if len(delays) != 2 || delays[0] < 0 || delays[1] < 40*time.Millisecond || delays[1] > 10*time.Second {
		t.Errorf("delays %v, want two, the second of 40 ms and more", delays)
	}
}

// TestTailWithoutLog: a log that does not exist is an error.
func TestTailWithoutLog(t *testing.T) {
	if _, err := Follow(filepath.Join(t.TempDir(), "log")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestStampProgram: the program writes stamps with the clock of Now, at its interval.
func TestStampProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "stamp")
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("builds a program: %v", err)
	}
	if out, err := exec.Command("gcc", "-O2", "-Wall", "-Werror", "-o", program, "testdata/stamp.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	start := Now()
	cmd := exec.Command(program, "5")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	lines := bufio.NewScanner(out)
	for range 3 {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		written, rest := FindStamps([]byte(lines.Text() + "\n"))
		if len(written) != 1 || rest != 0 || written[0] < start+5*time.Millisecond || written[0] > Now() {
			t.Fatalf("%q: %v, want a time from %v to %v", lines.Text(), written, start+5*time.Millisecond, Now())
		}
		start = written[0]
	}
}
