package topology

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
)

// lstopoView is a machine in the output of hwloc's lstopo.
type lstopoView struct {
	sockets, nodes, l3s, cores []Domain
	cpus                       cpuset.Set // the CPUs that lstopo shows
	absent                     cpuset.Set // CPUs that lstopo omits
	distances                  map[[2]int]int
	kinds                      []lstopoKind
}

// lstopoKind is a group of CPUs of about the same speed.
type lstopoKind struct {
	cpus             cpuset.Set
	maxMHz, capacity int
}

// add adds an object to the view.
func (v *lstopoView) add(kind string, d Domain) {
	switch kind {
	case "Package":
		v.sockets = append(v.sockets, d)
	case "NUMANode":
		v.nodes = append(v.nodes, d)
	case "L3Cache":
		v.l3s = append(v.l3s, d)
	case "Core":
		v.cores = append(v.cores, d)
	}
}

// readLstopo reads the XML or the text form of lstopo's output.
func readLstopo(t *testing.T, name string) *lstopoView {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	v := &lstopoView{distances: map[[2]int]int{}}
	if strings.HasSuffix(name, ".xml") {
		v.readXML(t, text)
	} else {
		v.readText(t, string(text))
	}
	for _, list := range []*[]Domain{&v.sockets, &v.nodes, &v.l3s, &v.cores} {
		sortDomains(*list)
	}
	return v
}

func sortDomains(list []Domain) {
	slices.SortFunc(list, func(a, b Domain) int {
		return cmp.Or(cmp.Compare(a.CPUs.First(), b.CPUs.First()), cmp.Compare(a.ID, b.ID))
	})
}

var (
	objectLine = regexp.MustCompile(`^( *)(Machine|Package|NUMANode|L3Cache|Core|PU|[A-Za-z]\w*) L?#?\d* ?\((P#(\d+))?`)
	absentLine = regexp.MustCompile(`^\d+ processors not represented in topology: (\S+)`)
	kindLine   = regexp.MustCompile(`^CPU kind #\d+ .*cpuset (\S+)`)
	maxLine    = regexp.MustCompile(`^ +FrequencyMaxMHz = (\d+)`)
)

// A textObject is a line of the tree whose children are still being read.
type textObject struct {
	indent   int
	kind     string
	id       int
	cpus     cpuset.Set
	memories []int // NUMA nodes are children of the objects close to them
}

// readText reads the tree of "lstopo -v": an object's CPUs are the PUs below it.
func (v *lstopoView) readText(t *testing.T, text string) {
	var open []textObject
	closeTo := func(indent int) {
		for len(open) > 0 && open[len(open)-1].indent >= indent {
			o := open[len(open)-1]
			open = open[:len(open)-1]
			v.add(o.kind, Domain{o.id, o.cpus})
			for _, node := range o.memories {
				v.add("NUMANode", Domain{node, o.cpus})
			}
			if len(open) > 0 {
				open[len(open)-1].cpus = open[len(open)-1].cpus.Union(o.cpus)
			} else {
				v.cpus = o.cpus
			}
		}
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "depth 0:") {
			closeTo(0)
		}
		if m := absentLine.FindStringSubmatch(line); m != nil {
			v.absent = hwlocMask(t, m[1])
		} else if m := kindLine.FindStringSubmatch(line); m != nil {
			v.kinds = append(v.kinds, lstopoKind{cpus: hwlocMask(t, m[1])})
		} else if m := maxLine.FindStringSubmatch(line); m != nil {
			v.kinds[len(v.kinds)-1].maxMHz = atoi(t, m[1])
		}
		m := objectLine.FindStringSubmatch(line)
		if m == nil || v.cpus != (cpuset.Set{}) {
			continue
		}
		o := textObject{indent: len(m[1]), kind: m[2], id: -1}
		if m[4] != "" {
			o.id = atoi(t, m[4])
		}
		closeTo(o.indent)
		switch o.kind {
		case "NUMANode":
			open[len(open)-1].memories = append(open[len(open)-1].memories, o.id)
			continue
		case "PU":
			o.cpus.Add(o.id)
		}
		open = append(open, o)
	}
}

// xmlObject is an object of hwloc's XML. Its complete set also has offline CPUs and CPUs outside of the
// cgroup.
type xmlObject struct {
	Type     string      `xml:"type,attr"`
	ID       string      `xml:"os_index,attr"`
	CPUs     string      `xml:"cpuset,attr"`
	Complete string      `xml:"complete_cpuset,attr"`
	Children []xmlObject `xml:"object"`
}

type xmlTopology struct {
	Machine   xmlObject `xml:"object"`
	Distances struct {
		Indexes string   `xml:"indexes"`
		Values  []string `xml:"u64values"`
	} `xml:"distances2"`
	Kinds []struct {
		CPUs string `xml:"cpuset,attr"`
		Info []struct {
			Name  string `xml:"name,attr"`
			Value string `xml:"value,attr"`
		} `xml:"info"`
	} `xml:"cpukind"`
}

func (v *lstopoView) readXML(t *testing.T, text []byte) {
	var x xmlTopology
	if err := xml.Unmarshal(text, &x); err != nil {
		t.Fatal(err)
	}
	v.cpus = hwlocMask(t, x.Machine.CPUs)
	v.absent = hwlocMask(t, x.Machine.Complete).Minus(v.cpus)
	v.addXML(t, x.Machine)
	nodes := strings.Fields(x.Distances.Indexes)
	for i, value := range strings.Fields(strings.Join(x.Distances.Values, " ")) {
		pair := [2]int{atoi(t, nodes[i/len(nodes)]), atoi(t, nodes[i%len(nodes)])}
		v.distances[pair] = atoi(t, value)
	}
	for _, k := range x.Kinds {
		kind := lstopoKind{cpus: hwlocMask(t, k.CPUs)}
		for _, info := range k.Info {
			switch info.Name {
			case "FrequencyMaxMHz":
				kind.maxMHz = atoi(t, info.Value)
			case "LinuxCapacity":
				kind.capacity = atoi(t, info.Value)
			}
		}
		v.kinds = append(v.kinds, kind)
	}
}

func (v *lstopoView) addXML(t *testing.T, o xmlObject) {
	id := -1
	if o.ID != "" {
		id = atoi(t, o.ID)
	}
	if o.Complete != "" { // I/O devices have no complete set
		v.add(o.Type, Domain{id, hwlocMask(t, o.Complete)})
	}
	for _, c := range o.Children {
		v.addXML(t, c)
	}
}

// hwlocMask parses hwloc's form of a set: "0x000000ff,0xffffffff", where zero words may be empty.
func hwlocMask(t *testing.T, s string) cpuset.Set {
	t.Helper()
	var set cpuset.Set
	words := strings.Split(s, ",")
	slices.Reverse(words)
	for i, word := range words {
		bits, err := strconv.ParseUint(strings.TrimPrefix("0"+word, "00x"), 16, 32)
		if err != nil {
			t.Fatalf("hwloc's set %q: %v", s, err)
		}
		for b := range 32 {
			if bits>>b&1 != 0 {
				set.Add(i*32 + b)
			}
		}
	}
	return set
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
