package host

import (
	"fmt"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/topology"
)

// A basis is what a node without containers is made of: nodes with the same one are the same.
type basis struct {
	machine *topology.Machine
	options NodeOptions // with the CPUs of containers that are left alone
	usable  cpuset.Set
	mems    cpuset.Set // the memory nodes that groups have unless told
}

// basis is what holds of this machine now.
func (h *Host) basis() (basis, error) {
	options, err := h.NodeOptions()
	if err != nil {
		return basis{}, err
	}
	return h.basisWith(options)
}

// basisWith is basis by other options than the machine's.
func (h *Host) basisWith(options NodeOptions) (basis, error) {
	machine, err := h.machine.get()
	if err != nil {
		return basis{}, err
	}
	usable, _, mems, err := h.usable()
	if err != nil {
		return basis{}, err
	}
	return basis{machine, h.withPreserved(options, usable.Intersect(machine.Online)), usable, mems}, nil
}

// node returns a node without containers. config is the file that the options are from.
func (b *basis) node(config string) (*hybrid.Node, error) {
	node, err := b.options.node(b.machine, b.usable)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrBadOptions, config, err)
	}
	return node, nil
}
