package hybrid

// A packing that is not found does not exist, as a rule, and a search may need all of its tries to find none. A bound says
// so at once for many of them; of what full nodes of Google's cell of 2011 could not pack, where all containers
// are sensitive, for nine in ten. It weighs the items by functions under which no bin's items weigh more than one (u(k) of Fekete and
// Schepers, "New classes of fast lower bounds for bin packing problems", 2001): of items above a quarter of a bin, say, each weighs
// a third at least, since no bin holds four.

// weighings is how many such functions are tried: that of k tells of items above a (k+1)-th of a bin.
const weighings = 12

// isTooMuch reports that no packing of items[from:] exists; false says nothing.
func (p *packer) isTooMuch(from int) bool {
	for k := int32(1); k <= weighings; k++ {
		if p.weigh(from, k) > k*1000*int32(len(p.room)) {
			return true
		}
	}
	return false
}

// weigh returns the sum of what items[from:] weigh by u(k), and what is in the bins already, where a bin holds k*1000.
func (p *packer) weigh(from int, k int32) (sum int32) {
	for i := from; i < len(p.items); i++ {
		sum += weighed(p.items[i].milli, k)
	}
	for _, room := range p.room {
		sum += weighed(1000-room, k)
	}
	return sum
}

// weighed is k*1000 times u(k) of a part of a bin.
func weighed(milli, k int32) int32 {
	if whole := (k + 1) * milli / 1000; whole*1000 != (k+1)*milli {
		return whole * 1000
	}
	return k * milli
}
