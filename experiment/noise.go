package experiment

import (
	"time"

	"github.com/candor-project/candor/internal/procfs"
)

// Noise is the other activity of the machine during a run.
type Noise struct {
	Others float64 `json:"others"` // CPUs that other programs and interrupts used, on average
	Stolen float64 `json:"stolen"` // CPUs that the hypervisor gave to other virtual machines, on average
}

// A cpuReading is a reading of the machine's CPU times.
type cpuReading struct {
	at           time.Time
	busy, stolen time.Duration
}

func readCPUTimes() (cpuReading, error) {
	times, err := procfs.ReadCPUTimes()
	m := cpuReading{at: time.Now()}
	for _, t := range times {
		m.busy += t.Programs + t.Interrupts
		m.stolen += t.Stolen
	}
	return m, err
}

// noiseSince returns the noise between the readings before and m, without the CPU time of the workload.
func (m cpuReading) noiseSince(before cpuReading, workload time.Duration) Noise {
	span := m.at.Sub(before.at).Seconds()
	if span <= 0 {
		return Noise{}
	}
	return Noise{
		Others: max(0, (m.busy-before.busy-workload).Seconds()/span), // /proc counts in ticks of 10 ms
		Stolen: (m.stolen - before.stolen).Seconds() / span,
	}
}
