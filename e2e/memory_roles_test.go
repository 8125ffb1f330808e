package e2e

import (
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// watchPause is the time between two reads of the role watch-memory.
const watchPause = 5 * time.Millisecond

// watchMemory reads /proc/meminfo and, if it is of a view, /proc/stat in a loop until SIGTERM. It prints the number of reads, or
// the first read that is wrong: MemTotal is none of the totals in kB, a line does not parse, or a counter has decreased.
func watchMemory(totals []string) int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM)
	counters := map[string][]int64{}
	fmt.Println("ready")
	for reads := 1; ; reads++ {
		err := readTotal(totals)
		if err == nil {
			err = readCounters(counters)
		}
		if err != nil {
			fmt.Println(strings.ReplaceAll(err.Error(), "\n", " "))
			return 1
		}
		select {
		case <-stop:
			fmt.Println(reads)
			return 0
		case <-time.After(watchPause):
		}
	}
}

var meminfoLine = regexp.MustCompile(`^[A-Za-z0-9_()]+: +[0-9]+( kB)? *$`)

// readTotal checks a read of /proc/meminfo.
func readTotal(totals []string) error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, line := range lines {
		if !meminfoLine.MatchString(line) {
			return fmt.Errorf("line %q", line)
		}
	}
	if fields := strings.Fields(lines[0]); fields[0] != "MemTotal:" || !slices.Contains(totals, fields[1]) {
		return fmt.Errorf("%q, want a total of %v", lines[0], totals)
	}
	return nil
}

// readCounters checks a read of /proc/stat against the counters of the read before.
func readCounters(last map[string][]int64) error {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), "\nintr 0\n") { // of the machine
		return nil
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		var now []int64
		for i, field := range fields[1:] {
			n, err := strconv.ParseInt(field, 10, 64)
			if before := last[fields[0]]; err != nil || len(before) > i && n < before[i] {
				return fmt.Errorf("%q after %v, %v", line, before, err)
			}
			now = append(now, n)
		}
		last[fields[0]] = now
	}
	return nil
}
