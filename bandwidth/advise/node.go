package advise

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/candor-project/candor/bandwidth/timescale"
)

// A Filling is the number of containers that fit on a node with one way to choose their limits, such as limits without a burst.
type Filling struct {
	Name       string
	Containers int
	Reserved   float64 // sum of the containers' limits in CPUs; 0: without limits
	// Short is the share of the windows of 100 ms in which the containers need more CPUs than the node has.
	Short float64
}

// A Node is a set of CPUs that containers share. The containers get the Node's demands in rotation, so each demand has the
// same number of containers.
type Node struct {
	CPUs    int
	Risk    float64     // share of the windows in which the containers may need more CPUs than the node has
	windows [][]float64 // CPUs used in each window, by demand
}

const (
	nodeWindow    = 100 * time.Millisecond // length of a window
	maxMoments    = 20000                  // maximum number of windows of a recording that are evaluated
	maxContainers = 4096
	draws         = 3 // number of random start times per container
)

// NewNode returns a Node for demands on which the caller has called Prepare.
func NewNode(cpus int, risk float64, demands []*Demand) *Node {
	n := &Node{CPUs: cpus, Risk: risk}
	for _, d := range demands {
		n.windows = append(n.windows, d.windows())
	}
	return n
}

// windows returns the mean CPUs used in each window of a demand. The last window can be shorter.
func (d *Demand) windows() []float64 {
	steps := max(int(nodeWindow/d.Step), 1)
	var list []float64
	for from := 0; from < len(d.Work); from += steps {
		part := d.Work[from:min(from+steps, len(d.Work))]
		sum := time.Duration(0)
		for _, w := range part {
			sum += w
		}
		list = append(list, float64(sum)/float64(d.Step)/float64(len(part)))
	}
	return list
}

// FillUnlimited fills the node with as many containers without limits as possible. The share of the windows in which these
// containers need more CPUs than the node has is at most Risk. The difference from FillLimited is the gain of statistical
// multiplexing.
func (n *Node) FillUnlimited() Filling {
	f := Filling{Name: "without limits"}
	load := n.newLoad()
	for f.Containers < maxContainers {
		load.add()
		short := load.shortShare(float64(n.CPUs))
		if short > n.Risk {
			return f
		}
		f.Containers++
		f.Short = short
	}
	return f
}

// FillLimited fills the node with containers until the sum of their limits reaches the node's CPUs. limits holds the limit
// of a container in CPUs, by demand.
func (n *Node) FillLimited(name string, limits []float64) Filling {
	f := Filling{Name: name}
	load := n.newLoad()
	for f.Containers < maxContainers {
		next := limits[f.Containers%len(limits)]
		if f.Reserved+next > float64(n.CPUs)+1e-9 {
			break
		}
		f.Reserved += next
		f.Containers++
		load.add()
	}
	f.Short = load.shortShare(float64(n.CPUs))
	return f
}

// A load is the sum of the CPUs that containers need, at a sample of moments. It has a sum for each of several draws. In a draw,
// each container starts at a random window of its demand.
type load struct {
	windows    [][]float64 // Node.windows
	moments    []int       // moments, as numbers of windows since the start of the containers
	containers int
	random     *rand.Rand
	sums       [draws][]float64 // CPUs that all containers need, by draw and moment
}

// newLoad returns a load without containers. All loads use the same sequence of random numbers.
func (n *Node) newLoad() *load {
	l := &load{windows: n.windows, random: rand.New(rand.NewPCG(1, 2))}
	longest := 0
	for _, w := range n.windows {
		longest = max(longest, len(w))
	}
	l.moments = momentsOf(longest)
	for i := range l.sums {
		l.sums[i] = make([]float64, len(l.moments))
	}
	return l
}

// momentsOf returns the moments for a recording of the given number of windows: all windows or, if there are more than
// maxMoments, a random window from each of several equal parts. The windows must not have equal distances, because then the
// result could be wrong for a program that is busy at regular times, such as once a minute.
func momentsOf(windows int) (list []int) {
	random := rand.New(rand.NewPCG(3, 4))
	stride := (windows + maxMoments - 1) / maxMoments
	for from := 0; from+stride <= windows; from += stride {
		list = append(list, from+random.IntN(stride))
	}
	return list
}

// add adds a container of the next demand in turn. After the end of its demand, the container repeats the demand.
func (l *load) add() {
	windows := l.windows[l.containers%len(l.windows)]
	l.containers++
	for _, sum := range l.sums {
		start := l.random.IntN(len(windows))
		for i, moment := range l.moments {
			sum[i] += windows[(start+moment)%len(windows)]
		}
	}
}

// shortShare returns the share of the windows in which the containers need more than cpus CPUs.
func (l *load) shortShare(cpus float64) float64 {
	short := 0
	for _, sum := range l.sums {
		for _, v := range sum {
			if v > cpus+1e-9 {
				short++
			}
		}
	}
	return float64(short) / float64(draws*len(l.sums[0]))
}

// Fill fills the node in three variants: with the lowest limits and no burst, with the lowest limits and a burst, and without limits. The
// limits must meet the targets of the reports, and the recordings must be long enough to verify this. Fill omits a variant if a report has
// no such limit.
func (n *Node) Fill(reports []*Report) []Filling {
	var all []Filling
	for _, way := range []struct {
		name  string
		burst bool
	}{{"limits", false}, {"limits with burst", true}} {
		var limits []float64
		for _, r := range reports {
			fits := slices.DeleteFunc(slices.Clone(r.Outcomes), func(o Outcome) bool { return o.Sensitive > 0 || o.Burst > 0 != way.burst || r.shortage(o) != nil })
			if len(fits) == 0 {
				break
			}
			if best, ok := Cheapest(fits, r.Target); ok {
				limits = append(limits, best.CPUs())
			}
		}
		if len(limits) == len(reports) {
			all = append(all, n.FillLimited(way.name, limits))
		}
	}
	return append(all, n.FillUnlimited())
}

// Text writes fillings as a table.
func (n *Node) Text(w io.Writer, fillings []Filling) error {
	fmt.Fprintf(w, "A node of %d CPUs, with the same number of containers for each recording:\n", n.CPUs)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VARIANT\tCONTAINERS\tRESERVED\tSHORT OF CPU")
	for _, f := range fillings {
		reserved := "-"
		if f.Reserved > 0 {
			reserved = timescale.Number(f.Reserved)
		}
		containers := fmt.Sprint(f.Containers)
		if f.Containers == maxContainers {
			containers += " or more"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f %%\n", f.Name, containers, reserved, 100*f.Short)
	}
	return t.Flush()
}
