package ledger

import "time"

// Samples count the samples of a daemon: every sample is a moment in which a thread of the daemon runs. The counts are
// weights, so that older samples can count less.
//
//	state of the thread    counter
//	user mode              User
//	read or write          Files[account] if the file is a container's FIFO or log, else Rest
//	another system call    Calls (futex, epoll_wait, page faults, …)
type Samples struct {
	User  float64
	Calls float64
	Files map[Account]IO
	Rest  IO // reads and writes of files that belong to no container, such as sockets
}

// An IO counts samples in reads and writes.
type IO struct{ Read, Write float64 }

func (io IO) sum() float64 { return io.Read + io.Write }

// Total returns the number of samples.
func (s *Samples) Total() float64 {
	total := s.User + s.Calls + s.Rest.sum()
	for _, io := range s.Files {
		total += io.sum()
	}
	return total
}

// fewReads is a number of read samples. A division in proportion to fewer read samples depends mostly on chance. A daemon that
// copies many short lines reads a block and writes each line, so that one sample in a thousand is a read.
const fewReads = 10

// Split divides the CPU time of a daemon among accounts. rest is the time without an account; the sum of all parts and rest is
// total. The time of each sample in a read or write of an account's file belongs to the account. A daemon spends the time in
// other calls before and after reads, so this time is divided in proportion to the read samples. The first half of the time in
// user mode is divided in proportion to the read samples. The second half is divided in proportion to the samples of reads and
// writes. If there are few read samples (fewReads), the samples of reads and writes partly replace them. The reads and writes of
// other files (Samples.Rest) get their part of each division. So the daemon's API work is not charged to containers that log.
func Split(total time.Duration, s Samples) (per map[Account]time.Duration, rest time.Duration) {
	samples, reads, both := s.Total(), s.Rest.Read, s.Rest.sum()
	for _, io := range s.Files {
		reads += io.Read
		both += io.sum()
	}
	if total <= 0 || samples <= 0 {
		return nil, max(total, 0)
	}
	per, rest = make(map[Account]time.Duration, len(s.Files)), total
	for account, io := range s.Files {
		byBoth := ratio(io.sum(), both)
		byReads := (io.Read + fewReads*byBoth) / (reads + fewReads)
		weight := io.sum() + s.Calls*byReads + s.User*(byReads+byBoth)/2
		part := min(time.Duration(float64(total)*weight/samples), rest)
		per[account] = part
		rest -= part
	}
	return per, rest
}

// ratio returns part / whole, and 0 if whole is 0.
func ratio(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}
