// Package record writes and reads recordings of what control groups use, many
// times a second. A recording is a stream: it can be read while it grows, and what
// a killed recorder leaves is whole up to its last second.
//
// The file:
//
//	"candor usage 1\n"           the magic, with the version
//	block …                       one a second: uint32 bytes, uint32 CRC-32C of them, the bytes
//
// Numbers are little-endian. A block is records, each a kind and what follows it;
// numbers in them are varints, times in microseconds:
//
//	H  length, JSON of Header; the first record, and the only one of its kind
//	G  length, JSON of Group; groups are numbered in this order
//	T  a reading: time since the one before less the interval (zigzag), number of groups that
//	   used something; of each its number, the counts that have grown (a bit each, in the
//	   order of cgroup.Usage), and by how much
//	I  number of readings, each an interval after the other, in which nobody used anything
//	X  number of a group that has ended
//	C  CPU time that the recorder itself has used in all, readings that it missed in all
//	E  the end: the recorder was not cut off
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
	maxText   = 1 << 16              // of a header or a group's
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

// What a recorder's interval may be.
const (
	MinInterval = time.Millisecond
	MaxInterval = 10 * time.Second
)

// CheckInterval refuses intervals that no recording has.
func CheckInterval(d time.Duration) error {
	if d < MinInterval || d > MaxInterval || d%time.Microsecond != 0 {
		return fmt.Errorf("interval %v: want %v to %v in whole microseconds", d, MinInterval, MaxInterval)
	}
	return nil
}

// A Header says what a recording is of.
type Header struct {
	Interval time.Duration
	Start    time.Time // of the first reading
	CPUs     int       // that the machine had online
	Model    string    // of its CPUs, as /proc/cpuinfo has it; "" where that is not known
	Kernel   string    // its release, such as 6.18.5
}

// A Group is a control group that was recorded, with the bandwidth that it had when it was first read.
type Group struct {
	Name                 string
	Quota, Period, Burst time.Duration // Quota 0: no limit
	Above                string        // the group above it with the tightest limit, as the recording names it; "": none has one
	Encloses             bool          // nobody asked for it: it is here since its limit holds for groups in it
}

// A Cost is what recording has cost.
type Cost struct {
	CPU    time.Duration
	Missed uint64 // readings that were too late to be made
}

// The forms of Header and Group in the file.
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
	const most = int64(maxSpan / time.Microsecond)
	if min(f.QuotaUs, f.PeriodUs, f.BurstUs) < 0 || max(f.QuotaUs, f.PeriodUs, f.BurstUs) > most {
		return fmt.Errorf("a bandwidth of %d, %d and %d µs", f.QuotaUs, f.PeriodUs, f.BurstUs)
	}
	us := time.Microsecond
	*g = Group{f.Name, time.Duration(f.QuotaUs) * us, time.Duration(f.PeriodUs) * us, time.Duration(f.BurstUs) * us, f.Above, f.Encloses}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// counts are a usage's counts as they are written: times in microseconds.
type counts [6]uint64

func countsOf(u cgroup.Usage) counts {
	us := func(d time.Duration) uint64 { return uint64(max(d, 0) / time.Microsecond) }
	return counts{us(u.CPU), u.Periods, u.Throttled, us(u.ThrottledTime), u.Bursts, us(u.BurstTime)}
}

func (c counts) usage() cgroup.Usage {
	us := func(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }
	return cgroup.Usage{CPU: us(c[0]), Periods: c[1], Throttled: c[2], ThrottledTime: us(c[3]), Bursts: c[4], BurstTime: us(c[5])}
}
