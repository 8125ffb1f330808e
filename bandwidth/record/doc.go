// Package record writes and reads recordings of the CPU use of control groups, with many readings per second.
//
// A Recorder reads groups at a fixed interval and writes a recording with a Writer. Groups finds and opens the groups
// of a machine, and Prepare starts a program in its own group. A Reader reads a recording. A recording is a stream: a
// program can read it while it grows. If the recorder is killed, the recording is complete up to its last second.
// Package record does not analyze recordings; package timescale does.
//
// The file format:
//
//	"candor usage 1\n"           the magic, with the version
//	block …                       each second: uint32 bytes, uint32 CRC-32C of them, the bytes
//
// Numbers outside records are little-endian. A block is a sequence of records. A record is a kind and its fields.
// Numbers in records are varints; times are in microseconds.
//
//	H  length, JSON of Header; always and only the first record
//	G  length, JSON of Group; groups are numbered in this order
//	T  a reading: time since the previous reading minus the interval (zigzag), number of groups
//	   with use; for each its number, the counts that have grown (a bit each, in the order of
//	   cgroup.Usage), and their increments
//	I  number of consecutive readings at the interval without use by any group
//	X  number of a group that has ended
//	C  total CPU time of the recorder, total number of missed readings
//	E  the end: the recording is complete
package record

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/candor-project/candor/cgroup"
)

const (
	magic     = "candor usage 1\n"
	blockHead = 4 + 4
	maxBlock  = 1 << 24
	maxText   = 1 << 16              // maximum bytes of a header or a group
	maxGroups = 1 << 17              // in one recording
	maxSpan   = 1e4 * 24 * time.Hour // of a recording
)

const (
	kindHeader = 'H'
	kindGroup  = 'G'
	kindTick   = 'T'
	kindIdle   = 'I'
	kindEnded  = 'X'
	kindCost   = 'C'
	kindEnd    = 'E'
)

// Bounds of a recorder's interval.
const (
	MinInterval = time.Millisecond
	MaxInterval = 10 * time.Second
)

// CheckInterval returns an error for an interval that a recording cannot have.
func CheckInterval(d time.Duration) error {
	if d < MinInterval || d > MaxInterval || d%time.Microsecond != 0 {
		return fmt.Errorf("interval %v: must be %v to %v in whole microseconds", d, MinInterval, MaxInterval)
	}
	return nil
}

// A Header describes a recording.
type Header struct {
	Interval time.Duration
	Start    time.Time // of the first reading
	CPUs     int       // number of online CPUs of the machine
	Model    string    // CPU model in /proc/cpuinfo; "": unknown
	Kernel   string    // kernel release, such as 6.18.5
}

// A Group is a recorded control group, with its bandwidth at its first reading.
type Group struct {
	Name                 string
	Quota, Period, Burst time.Duration // Quota 0: no limit
	Above                string        // name of the ancestor with the tightest limit; "": no ancestor has a limit
	Encloses             bool          // the group was not requested; it is recorded because its limit applies to a requested group
}

// A Cost is the cost of recording.
type Cost struct {
	CPU    time.Duration
	Missed uint64 // readings that were skipped because they were too late
}

// The encodings of Header and Group in the file.
type (
	fileHeader struct {
		IntervalUs int64     `json:"intervalUs"`
		Start      time.Time `json:"start"`
		CPUs       int       `json:"cpus"`
		Model      string    `json:"model,omitempty"`
		Kernel     string    `json:"kernel"`
	}
	fileGroup struct {
		Name     string `json:"name"`
		QuotaUs  int64  `json:"quotaUs,omitempty"`
		PeriodUs int64  `json:"periodUs,omitempty"`
		BurstUs  int64  `json:"burstUs,omitempty"`
		Above    string `json:"above,omitempty"`
		Encloses bool   `json:"encloses,omitempty"`
	}
)

func (h Header) encode() ([]byte, error) {
	return json.Marshal(fileHeader{h.Interval.Microseconds(), h.Start, h.CPUs, h.Model, h.Kernel})
}

func (h *Header) decode(text []byte) error {
	var f fileHeader
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	if f.IntervalUs < 0 || f.IntervalUs > MaxInterval.Microseconds() {
		return fmt.Errorf("an interval of %d µs", f.IntervalUs)
	}
	*h = Header{time.Duration(f.IntervalUs) * time.Microsecond, f.Start, f.CPUs, f.Model, f.Kernel}
	return CheckInterval(h.Interval)
}

func (g Group) encode() ([]byte, error) {
	return json.Marshal(fileGroup{g.Name, g.Quota.Microseconds(), g.Period.Microseconds(), g.Burst.Microseconds(), g.Above, g.Encloses})
}

func (g *Group) decode(text []byte) error {
	var f fileGroup
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	const maxMicros = int64(maxSpan / time.Microsecond)
	if min(f.QuotaUs, f.PeriodUs, f.BurstUs) < 0 || max(f.QuotaUs, f.PeriodUs, f.BurstUs) > maxMicros {
		return fmt.Errorf("a bandwidth of %d, %d and %d µs", f.QuotaUs, f.PeriodUs, f.BurstUs)
	}
	us := time.Microsecond
	*g = Group{f.Name, time.Duration(f.QuotaUs) * us, time.Duration(f.PeriodUs) * us, time.Duration(f.BurstUs) * us, f.Above, f.Encloses}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// counts are the counters of a usage as in the file, with times in microseconds.
type counts [6]uint64

func countsOf(u cgroup.Usage) counts {
	us := func(d time.Duration) uint64 { return uint64(max(d, 0) / time.Microsecond) }
	return counts{us(u.CPU), u.Periods, u.Throttled, us(u.ThrottledTime), u.Bursts, us(u.BurstTime)}
}

func (c counts) usage() cgroup.Usage {
	us := func(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }
	return cgroup.Usage{CPU: us(c[0]), Periods: c[1], Throttled: c[2], ThrottledTime: us(c[3]), Bursts: c[4], BurstTime: us(c[5])}
}
