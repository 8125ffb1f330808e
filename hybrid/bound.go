package hybrid

// leastShared returns a lower bound on the shared time, wherever fractions move. Time is kept apart where
// a fraction has a CPU that no other container uses. What such a CPU has left is lost, so the largest
// fractions keep the most time apart for the least loss. There can be so many of them that the
// other CPUs hold the other fractions and what flexible containers need.
func (n *Node) leastShared() Milli {
	parts := n.tally.parts
	rest := Milli(n.tally.open)*1000 - n.tally.room // time that is not kept apart
	if n.anyDomain() || rest != n.tally.partsUsed { // nothing is known with domains and closed CPUs
		return 0
	}
	others := n.sharedCount + n.tally.open // CPUs that keep nothing apart
	room := n.roomLeft()                   // on those
	if n.flexible.count > 0 {
		others-- // they need one even where they are guaranteed nothing
		room -= n.nodeNeed() - n.owed
	}
	for i := len(parts) - 1; i >= 0 && others > 0; i-- {
		part := Milli(parts[i])
		if room -= 1000 - part; room < 0 {
			break
		}
		rest -= part
		others--
	}
	return rest
}
