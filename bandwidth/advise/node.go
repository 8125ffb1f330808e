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

// A Filling is the number of containers that a node holds under a way of limiting them.
type Filling struct {
	Name       string  `json:"name"`
	Containers int     `json:"containers"`
	Reserved   float64 `json:"reservedCPUs"` // 0: no reservation
	// Short is the share of the windows of 100 ms in which the containers need more than the node has.
	Short float64 `json:"shortShare"`
}

// A Node is a set of CPUs that containers share. It holds equally many containers of each demand, in turn.
type Node struct {
	CPUs    int
	Risk    float64 // share of the windows in which the containers may need more than the node has
	windows [][]float64
}

// Bounds of the sampled moments and containers, and the number of random start times per container.
const (
	nodeWindow    = 100 * time.Millisecond
	maxMoments    = 20000 // a longer recording is sampled evenly
	maxContainers = 4096
	draws         = 3
)

// NewNode returns a node for prepared demands.
func NewNode(cpus int, risk float64, demands []*Demand) *Node {
	n := &Node{CPUs: cpus, Risk: risk}
	for _, d := range demands {
		n.windows = append(n.windows, d.windows())
	}
	return n
}

// windows returns the CPUs used in each tenth of a second. A shorter demand has a single, shorter window.
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

// Unlimited fills the node with containers without a limit, until the share of the windows in which they need more
// than the node has exceeds Risk. The result is the gain of statistical multiplexing.
func (n *Node) Unlimited() Filling {
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

// Limited fills the node with containers that reserve their limits, in CPUs by demand.
func (n *Node) Limited(name string, limits []float64) Filling {
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

// A load is the total need of containers at some moments. Each container has a random start in its demand.
type load struct {
	windows    [][]float64
	moments    []int // windows since the start
	containers int
	random     *rand.Rand
	sums       [draws][]float64
}

// newLoad returns an empty load. Its random numbers are always the same.
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

// momentsOf returns all windows of a short recording, and a random window from each part of a longer recording. Equal
// distances would distort the result of a program that is busy once a minute.
func momentsOf(windows int) (list []int) {
	random := rand.New(rand.NewPCG(3, 4))
	stride := (windows + maxMoments - 1) / maxMoments
	for from := 0; from+stride <= windows; from += stride {
		list = append(list, from+random.IntN(stride))
	}
	return list
}

// add adds a container of the next demand in turn. It repeats a demand that is shorter than the moments.
func (l *load) add() {
	of := l.windows[l.containers%len(l.windows)]
	l.containers++
	for _, sum := range l.sums {
		at := l.random.IntN(len(of))
		for i, moment := range l.moments {
			sum[i] += of[(at+moment)%len(of)]
		}
	}
}

// shortShare returns the share of the windows in which the containers need more than the given number of CPUs.
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

// Fill fills the node in three ways: with the cheapest limits that meet the target without a burst, with a burst, and
// without limits. It omits a way if a report has no such limit.
func (n *Node) Fill(reports []*Report) []Filling {
	var all []Filling
	for _, way := range []struct {
		name  string
		burst bool
	}{{"limits", false}, {"limits with burst", true}} {
		var limits []float64
		for _, r := range reports {
			fits := slices.DeleteFunc(slices.Clone(r.Outcomes), func(o Outcome) bool { return o.Sensitive > 0 || o.Burst > 0 != way.burst })
			if len(fits) == 0 {
				break
			}
			if best, ok := Cheapest(fits, r.Target); ok {
				limits = append(limits, best.CPUs())
			}
		}
		if len(limits) == len(reports) {
			all = append(all, n.Limited(way.name, limits))
		}
	}
	return append(all, n.Unlimited())
}

// Text writes fillings as a table.
func (n *Node) Text(w io.Writer, fillings []Filling) error {
	fmt.Fprintf(w, "A node of %d CPUs, with equally many of each:\n", n.CPUs)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WAY\tCONTAINERS\tRESERVED\tSHORT OF CPU")
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
