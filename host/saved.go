package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/candor-project/candor/internal/wholefile"
)

// A savedState is the state as this process has last read or written it. A node has hundreds of containers, and most
// operations change one: only what has changed is decoded and encoded. That the file is still the same its text says.
type savedState struct {
	state                   // as decodeState reads its text; nobody changes it
	lines map[string]string // of the text, by the containers' names; those that are known
}

// A memory holds a savedState; at first none.
type memory struct{ last atomic.Pointer[savedState] }

func newMemory() *memory {
	m := new(memory)
	m.last.Store(&savedState{})
	return m
}

// next is what a state will be when it has been saved and is loaded again.
func (m *memory) next(boot string, grants []Grant) (*savedState, error) {
	before := m.last.Load()
	same := byName(before.Grants)
	next := &savedState{state{Boot: boot, Grants: make([]Grant, len(grants))}, make(map[string]string, len(grants))}
	lines := make([]string, len(grants))
	for i := range grants {
		g, line := same[grants[i].ID], before.lines[grants[i].ID]
		if g == nil || !g.equal(&grants[i]) {
			g, line = nil, ""
		}
		if line == "" {
			line = string(compactJSON(newFileGrant(&grants[i])))
		}
		if g != nil {
			next.Grants[i] = *g
		} else if err := decodeGrant(line, &next.Grants[i]); err != nil {
			return nil, fmt.Errorf("state of %s: %w", grants[i].ID, err)
		}
		lines[i], next.lines[grants[i].ID] = line, line
	}
	next.text = encodeLines(boot, lines)
	return next, nil
}

// equal reports whether two grants are the same in the state file.
func (g *Grant) equal(h *Grant) bool {
	return g.Request == h.Request && g.CPUs == h.CPUs && g.Exclusive == h.Exclusive && slices.Equal(g.Fractions, h.Fractions) &&
		g.Quota == h.Quota && g.Weight == h.Weight && g.WishKept == h.WishKept &&
		g.Spec == h.Spec && g.Engine == h.Engine &&
		g.State == h.State && g.Creator == h.Creator && g.Main == h.Main && g.Since == h.Since && g.Deadline == h.Deadline && g.Loan == h.Loan
}

// encode writes the state as decodeState reads it.
func (s *state) encode() []byte {
	lines := make([]string, len(s.Grants))
	for i := range s.Grants {
		lines[i] = string(compactJSON(newFileGrant(&s.Grants[i])))
	}
	return encodeLines(s.Boot, lines)
}

// encodeLines writes a state with a line for each grant.
func encodeLines(boot string, lines []string) []byte {
	head := fmt.Sprintf(`{"version":%d,"boot":%s,"grants":[`, stateVersion, compactJSON(boot))
	size := len(head) + len("\n]}\n")
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
	return append(text, "\n]}\n"...)
}

func decodeGrant(line string, g *Grant) (err error) {
	var f fileGrant
	if err = wholefile.DecodeStrict([]byte(line), &f); err == nil {
		*g, err = f.grant()
	}
	return err
}

// compactJSON writes plain data, which can always be written.
func compactJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
