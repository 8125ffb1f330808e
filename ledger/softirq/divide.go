package softirq

import "time"

// A payment is CPU time of packets with the same owners and the same payer.
type payment struct {
	time     time.Duration
	owners   []string // IDs of the containers in the network namespace, sorted
	payer    string   // ID of the container whose task was interrupted; "" if it was no container
	isCaused bool     // the payer has caused the packets itself
	isFree   bool     // the kernel does not count the time as CPU time of a task
}

// divide returns the charges of the owners, in their order, and the credit of the payer. Each owner's part of the time is
// equal, up to a nanosecond. A payer that is an owner has paid its own part already.
//
// If the payer is a container, the sum of the charges is the credit, except if isFree is true.
func (p *payment) divide() (charges []time.Duration, credit time.Duration) {
	charges = make([]time.Duration, len(p.owners))
	if p.isCaused && !p.isFree {
		return charges, 0
	}
	n := time.Duration(len(p.owners))
	for i, owner := range p.owners {
		part := p.time / n
		if time.Duration(i) < p.time%n {
			part++
		}
		if owner == p.payer && !p.isFree {
			continue
		}
		charges[i] = part
		if p.payer != "" && !p.isFree {
			credit += part
		}
	}
	return charges, credit
}
