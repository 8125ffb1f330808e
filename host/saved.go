package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/wholefile"
)

// A savedState is the state as this process has last read or written it. A node has hundreds of containers, and most
// operations change one: only what has changed is decoded and encoded. That the file is still the same its text says.
type savedState struct {
	state          // as decodeState reads its text; nobody changes it
	lines []string // of the text, one for each grant; nil if they are not known
}

// A memory holds a savedState, at first that of no file.
type memory struct{ last atomic.Pointer[savedState] }

func newMemory() *memory {
	m := new(memory)
	m.last.Store(&savedState{})
	return m
}

// next is what a state will be when it has been saved and is loaded again. Grants that are as they were keep their address.
func (m *memory) next(boot string, grants []*Grant) (*savedState, error) {
	last := m.last.Load()
	next := &savedState{state{Boot: boot, Grants: make([]*Grant, len(grants))}, make([]string, len(grants))}
	from := 0 // most are where they were, or a few places further on
	for i, g := range grants {
		for from < len(last.Grants) && last.Grants[from].ID != g.ID {
			from++
		}
		if from == len(last.Grants) {
			from = max(slices.IndexFunc(last.Grants, func(was *Grant) bool { return was.ID == g.ID }), 0)
		}
		if from < len(last.Grants) && last.Grants[from].equal(g) {
			next.Grants[i], next.lines[i] = last.Grants[from], last.line(from)
			continue
		}
		var err error
		if next.lines[i], next.Grants[i], err = written(g); err != nil {
			return nil, fmt.Errorf("state of %s: %w", g.ID, err)
		}
	}
	next.text = encodeLines(boot, next.lines)
	return next, nil
}

// line is the text of a grant.
func (s *savedState) line(i int) string {
	if s.lines == nil {
		return string(compactJSON(newFileGrant(s.Grants[i])))
	}
	return s.lines[i]
}

// equal reports whether two grants are the same in the state file.
func (g *Grant) equal(h *Grant) bool {
	return sameGrant(&g.Grant, &h.Grant) && g.Immovable == h.Immovable &&
		g.Spec == h.Spec && g.Engine == h.Engine &&
		g.State == h.State && g.Creator == h.Creator && g.Main == h.Main && g.Since == h.Since && g.Deadline == h.Deadline && g.Loan == h.Loan
}

// sameGrant reports whether a node gives the same, lost CPUs apart. Whether it may move is another question.
func sameGrant(g, h *hybrid.Grant) bool {
	ask := h.Request
	ask.Immovable = g.Immovable
	return g.Request == ask && g.CPUs == h.CPUs && g.Exclusive == h.Exclusive && slices.Equal(g.Fractions, h.Fractions) &&
		g.Quota == h.Quota && g.Weight == h.Weight && g.WishKept == h.WishKept
}

// encode writes the state as decodeState reads it.
func (s *state) encode() []byte {
	lines := make([]string, len(s.Grants))
	for i, g := range s.Grants {
		lines[i] = string(compactJSON(newFileGrant(g)))
	}
	return encodeLines(s.Boot, lines)
}

// encodeLines writes a state with a line for each grant.
func encodeLines(boot string, lines []string) []byte {
	const end = "\n]}\n"
	head := fmt.Sprintf(`{"version":%d,"boot":%s,"grants":[`, stateVersion, compactJSON(boot))
	size := len(head) + len(end)
	for _, line := range lines {
		size += len(line) + len(",\n")
	}
	text := append(make([]byte, 0, size), head...)
	for i, line := range lines {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, '\n'), line...)
	}
	return append(text, end...)
}

// written is a grant in the state file, and what is read of that.
func written(g *Grant) (line string, read *Grant, err error) {
	f := newFileGrant(g)
	text := compactJSON(f)
	if bytes.Contains(text, []byte(`\ufffd`)) { // in the place of what was no text
		f = fileGrant{}
		if err := wholefile.DecodeStrict(text, &f); err != nil {
			return "", nil, err
		}
	}
	is, err := f.grant()
	return string(text), &is, err
}

// compactJSON writes plain data, which can always be written.
func compactJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
