package ledgertables

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The delay of a log is the time from the write of a line in the container to the appearance of the line in the log. A small
// program (testdata/stamp.c) runs in the container beside the measured program, and writes a line with the monotonic time to the
// same output. So its lines wait for all lines before them, and for the helper. A Tail finds the stamps in the log. It polls the
// log and does not use inotify, because a watch makes each write of the helper slower.

// StampMilliseconds is the interval between two stamps. It has no common factor with Period, so the stamps are written in all phases of a
// period.
const StampMilliseconds = 37

// marker starts a stamp, which is followed by the time in nanoseconds and a character that is not a digit.
const marker = "candor-stamp="

// A Delay describes the delays of a log in a measurement. A zero Count means that no stamp has appeared.
type Delay struct {
	Count       int           // number of stamps that have appeared
	Median, P99 time.Duration // nearest-rank quantiles
}

// Summarize returns the median and the 99th percentile of delays.
func Summarize(delays []time.Duration) Delay {
	sorted := slices.Sorted(slices.Values(delays))
	n := len(sorted)
	if n == 0 {
		return Delay{}
	}
	return Delay{Count: n, Median: sorted[(n*50+99)/100-1], P99: sorted[(n*99+99)/100-1]}
}

// FindStamps returns the times in the stamps of a piece of a log. rest is the number of bytes at the end that can be the start of
// a stamp. The caller passes these bytes again, before the next piece. The format of the log does not matter, as long as it does
// not change digits and letters.
func FindStamps(piece []byte) (written []time.Duration, rest int) {
	for {
		at := bytes.Index(piece, []byte(marker))
		if at < 0 {
			return written, markerStart(piece)
		}
		digits := piece[at+len(marker):]
		end := bytes.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			if len(digits) < maxDigits {
				return written, len(piece) - at
			}
			end = len(digits)
		}
		if ns, err := strconv.ParseInt(string(digits[:end]), 10, 64); err == nil {
			written = append(written, time.Duration(ns))
		}
		piece = digits[end:]
	}
}

// maxDigits is more than the number of digits of the highest int64 (19). A number of this length is no stamp.
const maxDigits = 20

// markerStart returns the length of the longest suffix of a piece that is a prefix of marker.
func markerStart(piece []byte) int {
	for n := min(len(marker)-1, len(piece)); n > 0; n-- {
		if bytes.HasSuffix(piece, []byte(marker[:n])) {
			return n
		}
	}
	return 0
}

// Now returns the time of CLOCK_MONOTONIC, the clock of the stamps.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // Linux always has this clock
	}
	return time.Duration(t.Nano())
}

// A Tail reads the stamps that are appended to a log.
type Tail struct {
	file   *os.File
	until  chan time.Duration
	delays chan []time.Duration
	start  time.Duration
}

const (
	pollInterval = time.Millisecond // resolution of the delays
	maxLate      = 5 * time.Second  // wait for the stamps of the last lines
	pieceSize    = 1 << 20
)

// Follow starts to read the stamps of a log, from its current end. The delays only include stamps that are written after the
// call.
func Follow(log string) (*Tail, error) {
	file, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		file.Close()
		return nil, err
	}
	t := &Tail{file: file, until: make(chan time.Duration, 1), delays: make(chan []time.Duration, 1), start: Now()}
	go t.follow()
	return t, nil
}

// Stop returns the delays of the stamps that were written between Follow and this call. It waits for a later stamp, or for 5 seconds. Stamps
// that have not appeared by then are missing.
func (t *Tail) Stop() []time.Duration {
	t.until <- Now()
	return <-t.delays
}

func (t *Tail) follow() {
	defer t.file.Close()
	var delays []time.Duration
	var end, last time.Duration // end is 0 before Stop
	buffer, rest := make([]byte, pieceSize), 0
	for {
		n, err := t.file.Read(buffer[rest:])
		now := Now()
		isFull := rest+n == len(buffer)
		written, left := FindStamps(buffer[:rest+n])
		for _, w := range written {
			if last = w; w >= t.start && (end == 0 || w < end) {
				delays = append(delays, now-w)
			}
		}
		copy(buffer, buffer[rest+n-left:rest+n])
		rest = left
		select {
		case end = <-t.until:
		default:
		}
		if end != 0 && (last >= end || now > end+maxLate) || err != nil && !errors.Is(err, io.EOF) {
			t.delays <- delays
			return
		}
		if !isFull {
			time.Sleep(pollInterval)
		}
	}
}
