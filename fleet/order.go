package fleet

import (
	"fmt"
	"strconv"
	"strings"
)

// An Order defines which node is the best among the nodes that can take a container. Of equal nodes, the node with the lowest
// NodeID is the best. The orders compare mean shares after rounding them down to multiples of 2^-40.
//
// In every order, a node comes last if fractions would have to move to make room for a sensitive container, or if the container's
// view would be wider than needed. Among such nodes, the best is the node that may make room for the largest strict sensitive
// container. The order knows the limit of this container only under the algorithm Candor, and uses it only for strict sensitive
// containers without a confining topology policy. In all other cases, the best is the node with the most free CPU time.
type Order uint8

const (
	// Candor prefers the least added shared time, then the best topology, then the highest alignment of the node's free resources with the
	// container's request (alignment.go).
	Candor Order = iota
	// Paper is the optimized scheduler of Bacou et al. (SCC 2019). For a sensitive container, it prefers the most CPU time on whole CPUs,
	// then the least added shared time. For a flexible container, it compares the nodes like Least.
	Paper
	// Least is LeastAllocated of kube-scheduler: it prefers the largest free share after the placement, as the mean over CPU and the further
	// resources.
	Least
	// Most is MostAllocated of kube-scheduler: it prefers the smallest free share, in the same mean.
	Most
)

var orderNames = []string{"candor", "paper", "least", "most"}

// String returns the name of the order on the command line and in JSON.
func (o Order) String() string {
	if int(o) < len(orderNames) {
		return orderNames[o]
	}
	return strconv.Itoa(int(o))
}

// MarshalText returns the order's name.
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
