package trace

// A summarizer computes a Summary from events.
type summarizer struct {
	Summary
	one       float64 // amount of CPU in the trace's unit; factor is the same amount in cores
	factor    float64
	machines  []machineNow
	mix       map[capacity]int64
	slots     []slotNow
	jobs      map[uint64]bool // known jobs; true for jobs that existed at the start
	requests  [2]counter      // CPU requests: of containers at the start, of new containers
	durations []counter       // by class
	hours     [2]counter      // arrivals by hour: of containers, of jobs
	first     Micros          // time of the first event after the start; -1 until then
	now       Micros
	load      loadLine
	is        loadSums
}

type machineNow struct {
	capacity
	there bool
}

// A slotNow is the container in a slot.
type slotNow struct {
	start Micros
	cpu   int32
	class uint8
	held  bool
	live  bool
}

// Indexes of summarizer.requests (containers that existed at the start, new containers) and of summarizer.hours.
const (
	held, fresh     = 0, 1
	containers, job = 0, 1
)

func newSummarizer(h Header, coresOfLargest float64) *summarizer {
	s := &summarizer{jobs: map[uint64]bool{}, mix: map[capacity]int64{}, one: 1000, factor: 1, first: -1}
	s.requests, s.hours = [2]counter{{}, {}}, [2]counter{{}, {}}
	s.load.width = Second
	s.Containers.Ends = map[string]int64{}
	if h.Unit == LargestMachine {
		s.CoresOfLargest, s.factor, s.one = coresOfLargest, coresOfLargest, One
	}
	for _, class := range h.Classes {
		s.Classes = append(s.Classes, ClassTimes{Class: class})
		s.durations = append(s.durations, counter{})
	}
	return s
}

// cores converts an amount of CPU to cores.
func (s *summarizer) cores(cpu float64) float64 { return cpu * s.factor / s.one }

func (s *summarizer) event(e *Event) {
	s.Header.Events++
	if e.Time > s.now {
		s.load.add(s.now, e.Time, s.is)
		s.now = e.Time
		if s.first < 0 {
			s.first = e.Time
			s.recordStart()
		}
	}
	switch e.Kind {
	case Submit:
		s.submit(e)
	case End:
		s.end(e)
	default:
		s.machine(e)
	}
}

// recordStart records the machines and containers that exist before the first event after the start.
func (s *summarizer) recordStart() {
	for _, m := range s.machines {
		if m.there {
			s.Machines.Start++
			s.mix[m.capacity]++
		}
	}
	s.Machines.Cores = s.cores(float64(s.is.capacity))
	s.Containers.Start = s.requests[held].sum()
}

func (s *summarizer) machine(e *Event) {
	if int(e.Machine) == len(s.machines) {
		s.machines = append(s.machines, machineNow{})
	}
	m := &s.machines[e.Machine]
	if m.there {
		s.is.capacity -= int64(m.cpu)
	}
	m.there = e.Kind != MachineRemove
	if e.Kind == MachineUpdate {
		s.Machines.Updates++
	}
	if !m.there {
		s.Machines.Removals++
		return
	}
	m.capacity = capacity{e.CPU, e.Memory}
	s.is.capacity += int64(m.cpu)
}

func (s *summarizer) submit(e *Event) {
	if int(e.Container) == len(s.slots) {
		s.slots = append(s.slots, slotNow{})
	}
	atStart := e.Flags&AtStart != 0
	s.slots[e.Container] = slotNow{e.Time, e.CPU, e.Class, atStart, true}
	s.is.requested += int64(e.CPU)
	s.is.running++
	_, known := s.jobs[e.Job]
	if !known {
		s.jobs[e.Job] = atStart
	}
	class := &s.Classes[e.Class]
	if atStart {
		class.Start++
		class.Cores += s.cores(float64(e.CPU))
		s.requests[held][int64(e.CPU)]++
		return
	}
	class.New++
	s.Containers.New++
	s.requests[fresh][int64(e.CPU)]++
	s.hours[containers][int64(e.Time/Hour)]++
	if !known {
		s.Jobs++
		s.hours[job][int64(e.Time/Hour)]++
	}
}

func (s *summarizer) end(e *Event) {
	slot := &s.slots[e.Container]
	slot.live = false
	s.is.requested -= int64(slot.cpu)
	s.is.running--
	s.Containers.Ends[e.Reason.String()]++
	if !slot.held {
		s.durations[slot.class][durationBin(e.Time-slot.start)]++
	}
}

// finish computes the values that are only known after the last event.
func (s *summarizer) finish(r Reader) *Summary {
	if s.first < 0 {
		s.first = s.now
		s.recordStart()
	}
	s.Report = r.Report()
	events := s.Header.Events
	s.Header = r.Header()
	s.Header.Events, s.Header.Span = events, s.now
	s.Header.Slots, s.Header.Machines = int64(len(s.slots)), int64(len(s.machines))
	s.Header.Containers = s.Containers.New + s.requests[held].sum()
	s.Machines.All, s.Containers.AtOnce = s.Header.Machines, s.Header.Slots
	s.finishMix()
	s.RequestHeld = s.requests[held].quantiles(s.cores, 0)
	s.RequestNew = s.requests[fresh].quantiles(s.cores, 0)
	s.Arrivals, s.JobArrivals = s.perHour(containers), s.perHour(job)
	for i := range s.slots {
		if slot := &s.slots[i]; slot.live && !slot.held {
			s.Classes[slot.class].Running++
		}
	}
	for i, d := range s.durations {
		s.Classes[i].Duration = d.quantiles(durationOf, 0)
	}
	s.Load, s.LoadMean = s.load.points(s.cores)
	return &s.Summary
}
