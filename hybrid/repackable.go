package hybrid

// How large a sensitive container might become room for, if fractions moved without any
// bound? Fractions are packed into CPUs as items into bins, so a lower bound on the bins says what
// no arrangement can do. The bound is L2 of Martello and Toth ("Lower bounds and a reduction procedure
// for the bin packing problem", 1990): items above half a bin need one each, and the small ones
// what those leave.

// boundItems is the most fractions that are looked at.
const boundItems = 48

// An itemList is sizes of fractions, the largest first.
type itemList struct {
	count int
	size  [boundItems + 1]int32
}

// insert adds a size.
func (l *itemList) insert(size int32) {
	i := l.count
	for ; i > 0 && l.size[i-1] < size; i-- {
		l.size[i] = l.size[i-1]
	}
	l.size[i] = size
	l.count++
}

// remove removes a size that is there.
func (l *itemList) remove(size int32) {
	l.count--
	held := l.size[l.count]
	for i := l.count - 1; held != size; i-- {
		held, l.size[i] = l.size[i], held
	}
}

// bins returns a lower bound on the CPUs that the items need.
func (l *itemList) bins() int32 {
	large := int32(0) // items above half a CPU
	for large < int32(l.count) && l.size[large] > 500 {
		large++
	}
	least, small := large, int32(0)
	joined, sum := int32(0), int32(0) // large ones that leave room for a small one
	for i := int(large); i < l.count; i++ {
		small += l.size[i]
		if i+1 < l.count && l.size[i+1] == l.size[i] {
			continue
		}
		// Smaller ones are left out; large ones that leave no room for this one count alone.
		for ; joined < large && l.size[large-1-joined] <= 1000-l.size[i]; joined++ {
			sum += l.size[large-1-joined]
		}
		if rest := small - (joined*1000 - sum); rest > 0 {
			least = max(least, large+(rest+999)/1000)
		}
	}
	return least
}

// mostLimit returns a limit above which no strict sensitive container without a wish that confines it can
// have room, wherever fractions move. CPU time is not looked at.
func (n *Node) mostLimit() Milli {
	if len(n.tally.parts) > boundItems {
		return n.total
	}
	t := &n.tally
	if t.packBins < 0 {
		t.packBins, t.packRoom = packable(t.parts)
	}
	open := n.sharedCount + int32(n.fractional.Count()) // closed ones too: their fractions are among the parts
	return Milli(max(0, open-t.packBins))*1000 + Milli(t.packRoom)
}

// packSteps is how exact the largest fraction is, milli-CPU.
const packSteps = 8

// packable returns a lower bound on the CPUs that fractions need, and a fraction such that
// with any larger one they need more. The least fractions are first.
func packable(parts []int16) (bins, room int32) {
	items, used := itemList{count: len(parts)}, int32(0)
	for i, part := range parts {
		items.size[len(parts)-1-i] = int32(part)
		used += int32(part)
	}
	bins = items.bins()
	rest := min(bins*1000-used, 1000)
	all := items.suffice(rest, bins)   // it can be as large as what is left, as a rule
	low, high := int32(0), int32(1000) // the largest fraction with which the bins suffice: low does
	for high-low > packSteps {
		middle := (low + high) / 2
		if middle <= rest && (all || items.suffice(middle, bins)) {
			low = middle
		} else {
			high = middle
		}
	}
	return bins, high - 1
}

// suffice reports whether some bins might be enough for the items and one more.
func (l *itemList) suffice(size, bins int32) bool {
	l.insert(size)
	is := l.bins() <= bins
	l.remove(size)
	return is
}
