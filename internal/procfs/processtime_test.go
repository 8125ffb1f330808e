package procfs

import (
	"os"
	"testing"
	"time"
)

// TestReadProcessTimes: the CPU time of this process grows while it computes.
func TestReadProcessTimes(t *testing.T) {
	before, err := ReadProcessTimes()
	if err != nil || before[os.Getpid()].Start == 0 || before[os.Getpid()].Comm == "" {
		t.Fatalf("%+v, %v", before[os.Getpid()], err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		after, err := ReadProcessTimes()
		if err != nil {
			t.Fatal(err)
		}
		if after[os.Getpid()].Time > before[os.Getpid()].Time {
			return
		}
	}
	t.Error("this process used no CPU time in 10 s")
}
