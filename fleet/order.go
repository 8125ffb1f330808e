package fleet

import (
	"fmt"
	"strconv"
	"strings"
)

// Order defines the best of the nodes with room for a container. Ties go to the lowest number; mean shares that differ by less than 2^-40
// are equal.
//
// In every order, nodes come last on which fractions would have to move to make room for a sensitive container, or on which its view would
// be wider than needed. Of these nodes the first is the node with room for the largest container, as far as that is known, otherwise the
// node with the most free CPU time.
type Order uint8

const (
	// Candor: the least added shared time, then the best topology, then the node whose free resources are most like the container's request (see
	// the package's alignment score).
	Candor Order = iota
	// Paper is the optimized scheduler of Bacou et al. (SCC 2019): for a sensitive container the most CPU time on whole CPUs, then the least
	// added shared time; a flexible container uses Least.
	Paper
	// Least is Kubernetes' LeastAllocated: the largest free share of the node's resources after the placement, as the mean over CPU and the
	// further resources.
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

// UnmarshalText parses an order's name. The error for an unknown name lists the known names.
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
	return fmt.Errorf("order %q: must be one of %s", text, strings.Join(orderNames, ", "))
}
