package trace

// A due is a planned event of a generated trace.
type due struct {
	time  Micros
	order uint64 // kind in the high bits, sequence number in the low bits
	ref   uint32 // by kind: a machine, a slot, a class, or a number in population.waiting or population.batches
}

// Kinds of due events. At equal times, lower kinds are first: machines, then ends, then starts.
const (
	dueAdd = iota
	dueRemove
	dueHour  // the rate of jobs changes for the next hour
	dueEnd   // a container ends
	dueAgain // a container is resubmitted
	dueJob   // a job with short containers arrives
	dueTask  // the next task of a job arrives
	dueLong  // a job with long containers arrives
)

const dueKindShift = 56

func (d *due) kind() int { return int(d.order >> dueKindShift) }

func (d *due) before(other *due) bool {
	return d.time < other.time || d.time == other.time && d.order < other.order
}

// An eventQueue is a priority queue of due events. It is a heap with four children per node, which accesses less memory than a binary heap.
type eventQueue struct {
	heap []due
	seq  uint64
}

func (a *eventQueue) push(time Micros, kind int, ref uint32) {
	a.seq++
	d := due{time, uint64(kind)<<dueKindShift | a.seq, ref}
	a.heap = append(a.heap, d)
	i := len(a.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !d.before(&a.heap[parent]) {
			break
		}
		a.heap[i] = a.heap[parent]
		i = parent
	}
	a.heap[i] = d
}

// pop removes and returns the next event. The queue must not be empty.
func (a *eventQueue) pop() due {
	first := a.heap[0]
	n := len(a.heap) - 1
	d := a.heap[n]
	a.heap = a.heap[:n]
	if n == 0 {
		return first
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if a.heap[c].before(&a.heap[least]) {
				least = c
			}
		}
		if !a.heap[least].before(&d) {
			break
		}
		a.heap[i] = a.heap[least]
		i = least
	}
	a.heap[i] = d
	return first
}
