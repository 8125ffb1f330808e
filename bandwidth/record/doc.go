// Package record writes and reads recordings of the CPU use of cgroups, with many readings per second.
//
// A Recorder reads groups at a fixed interval and writes a recording with a Writer. Groups finds and opens the groups
// of a machine, and Prepare starts a program in its own group. A Reader reads a recording. A recording is a stream, so a
// program can read the recording while the Recorder writes it. If the Recorder is killed, only the use of the last second
// is lost. Package record does not analyze recordings; package timescale does.
//
// A recording is a file that consists of a magic string and blocks. The Recorder writes a block each second:
//
//	"candor usage 1\n"            magic string, with the version of the format
//	block …                       uint32 length of the records in bytes, uint32 CRC-32C of the records, records
//
// The two numbers before the records are little-endian. A record consists of a byte, which is its kind, and fields.
// Numbers in fields are varints; times are in microseconds. These are the kinds of records with their fields:
//
//	H  the Header: length, JSON; always the first record, and only there
//	G  a new Group: length, JSON; the number of a group is the number of G records before its G record
//	T  a reading: time since the previous reading minus the interval (zigzag), number of groups with use since
//	   the previous reading; for each such group: number of the group, a byte with a bit for each counter that
//	   has grown (in the order of cgroup.Usage), and the increments of these counters
//	I  readings without use by any group: number of these readings, which are an interval apart
//	X  the end of a group: number of the group
//	C  the cost: total CPU time of the Recorder, total number of missed readings
//	F  foreign processes used the CPUs of the recorded groups: length, JSON; absent if their use was low
//	E  the end of the recording: no fields
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
	blockHead = 4 + 4                // bytes before the records of a block
	maxBlock  = 1 << 24              // maximum bytes of a block
	maxText   = 1 << 16              // maximum bytes of the JSON of a Header or a Group
	maxGroups = 1 << 17              // maximum number of groups in a recording
	maxSpan   = 1e4 * 24 * time.Hour // maximum length of a recording
)

// Kinds of records.
const (
	kindHeader  = 'H'
	kindGroup   = 'G'
	kindTick    = 'T'
	kindIdle    = 'I'
	kindEnded   = 'X'
	kindCost    = 'C'
	kindForeign = 'F'
	kindEnd     = 'E'
)

// Bounds of the interval between readings.
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
	Start    time.Time // start of the recording
	CPUs     int       // number of online CPUs of the machine
	Model    string    // CPU model in /proc/cpuinfo; "": unknown
	Kernel   string    // kernel release, such as 6.18.5
}

// A Group is a recorded cgroup, with its bandwidth at the start of its recording.
type Group struct {
	Name                 string
	Quota, Period, Burst time.Duration // Quota 0: no limit
	Above                string        // name of the ancestor with the tightest limit; "": no ancestor has a limit
	Encloses             bool          // the group is recorded only because it is the Above of another recorded group
}

// A Cost is the cost of recording so far.
type Cost struct {
	CPU    time.Duration // CPU time of the recording process
	Missed uint64        // readings that the Recorder skipped because the reading before was late
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

// counts are the counters of a cgroup.Usage in the order of its fields, with times in microseconds.
type counts [6]uint64

func countsOf(u cgroup.Usage) counts {
	us := func(d time.Duration) uint64 { return uint64(max(d, 0) / time.Microsecond) }
	return counts{us(u.CPU), u.Periods, u.Throttled, us(u.ThrottledTime), u.Bursts, us(u.BurstTime)}
}

func (c counts) usage() cgroup.Usage {
	us := func(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }
	return cgroup.Usage{CPU: us(c[0]), Periods: c[1], Throttled: c[2], ThrottledTime: us(c[3]), Bursts: c[4], BurstTime: us(c[5])}
}
