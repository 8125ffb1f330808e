package fleet

import (
	"fmt"
	"strconv"
	"strings"
)

// Order says which of the nodes with room for a container is the best. Of
// equals it is the one with the lowest number; mean shares that differ by less than 2^-40 are equal.
//
// By every order those nodes come last where fractions of others would have to move to make room for a
// sensitive container, or where its view would be wider than it needs; of them the one first that has room for
// the largest container, as far as that is known, else the one with the most free CPU time.
type Order uint8

const (
	// Candor: the least added shared time, then the best topology, then the node whose
	// free resources are most like what the container asks for (pull.go says it in full).
	Candor Order = iota
	// Paper is the optimized scheduler of Bacou et al. (SCC 2019): for a sensitive
	// container the most CPU time on whole CPUs, then the least added shared time; a
	// flexible one goes by Least.
	Paper
	// Least is Kubernetes' LeastAllocated: the largest share of the node's
	// resources free after the placement, in the mean over CPU and what else the node has.
	Least
	// Most is Kubernetes' MostAllocated: the smallest such share.
	Most
)

var orderNames = []string{"candor", "paper", "least", "most"}

// String returns the order's name, as the command line and JSON write it.
func (o Order) String() string {
	if int(o) < len(orderNames) {
		return orderNames[o]
	}
	return strconv.Itoa(int(o))
}

// MarshalText writes the order's name.
func (o Order) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads an order's name. An unknown one is an error that lists the known ones.
func (o *Order) UnmarshalText(text []byte) error {
	for i, name := range orderNames {
		if name == string(text) {
			*o = Order(i)
			return nil
		}
	}
	if len(text) > 40 {
		text = append(text[:40:40], "…"...)
	}
	return fmt.Errorf("order %q: want one of %s", text, strings.Join(orderNames, ", "))
}
