package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/fileio"
)

// A Saved is the state as this process has last read or written it. A node has hundreds of containers, and most
// operations change one: only what has changed is decoded and encoded, and what this process has written itself it does not read.
type Saved struct {
	State          // as decodeState reads it; nobody changes it
	text  []byte   // of the file that it was read from; nil if it is known by its lines
	lines []string // one for each grant; nil if they are not known
	file  openFile // that it was written to
}

// CloneWithoutArguments returns a copy with grants of its own, for a caller that replaces the grants in WithArguments.
func (s *Saved) CloneWithoutArguments() *Saved {
	return &Saved{State: State{Boot: s.Boot, Grants: slices.Clone(s.Grants)}, text: s.text}
}

// A cache holds a savedState, at first that of no file.
type cache struct{ last atomic.Pointer[Saved] }

func newCache() *cache {
	m := new(cache)
	m.last.Store(&Saved{})
	return m
}

// lastAt is what this process has last written, if the file of that name is still that; else nil.
func (m *cache) lastAt(name string) *Saved {
	now, err := stampOf(name) // first: what is written meanwhile is newer
	if last := m.last.Load(); err == nil && last.file.is(now) {
		return last
	}
	return nil
}

// replace forgets one savedState for another, unless somebody else has by now.
func (m *cache) replace(last, next *Saved) {
	if m.last.CompareAndSwap(last, next) {
		last.file.close()
	} else {
		next.file.close()
	}
}

// Next is what a state will be when it has been saved and is loaded again, and whether it is another one than this.
// Grants that are as they were keep their address.
func (s *Saved) Next(boot string, grants []*Grant) (next *Saved, isOther bool, err error) {
	next = &Saved{State: State{Boot: boot, Grants: make([]*Grant, len(grants))}, lines: make([]string, len(grants))}
	isOther = boot != s.Boot || len(grants) != len(s.Grants)
	from := 0 // most are where they were, or a few places further on
	for i, g := range grants {
		for from < len(s.Grants) && s.Grants[from].ID != g.ID {
			from++
		}
		if from == len(s.Grants) {
			from = max(slices.IndexFunc(s.Grants, func(was *Grant) bool { return was.ID == g.ID }), 0)
		}
		if from < len(s.Grants) && s.Grants[from].Equal(g) {
			next.Grants[i], next.lines[i] = s.Grants[from], s.line(from)
			isOther = isOther || from != i
			continue
		}
		if next.lines[i], next.Grants[i], err = written(g); err != nil {
			return nil, false, fmt.Errorf("state of %s: %w", g.ID, err)
		}
		isOther = isOther || from != i || next.lines[i] != s.line(from)
	}
	if !isOther && s.text != nil { // it may have been written in another way
		isOther = !bytes.Equal(next.Encode(), s.text)
	}
	return next, isOther, nil
}

// line is the text of a grant.
func (s *Saved) line(i int) string {
	if s.lines == nil {
		return string(compactJSON(newFileGrant(s.Grants[i])))
	}
	return s.lines[i]
}

// Equal reports whether two grants are the same in the state file.
func (g *Grant) Equal(h *Grant) bool {
	return SameGrant(&g.Grant, &h.Grant) && g.Immovable == h.Immovable &&
		g.Spec == h.Spec && g.Engine == h.Engine &&
		g.State == h.State && g.Creator == h.Creator && g.Main == h.Main && g.Since == h.Since && g.Deadline == h.Deadline && g.Loan == h.Loan
}

// SameGrant reports whether a node gives the same, lost CPUs apart. Whether it may move is another question.
func SameGrant(g, h *hybrid.Grant) bool {
	ask := h.Request
	ask.Immovable = g.Immovable
	return g.Request == ask && g.CPUs == h.CPUs && g.Exclusive == h.Exclusive && slices.Equal(g.Fractions, h.Fractions) &&
		g.Quota == h.Quota && g.Weight == h.Weight && g.TopologyMet == h.TopologyMet
}

// Encode writes the state as decodeState reads it.
func (s *Saved) Encode() []byte {
	lines := make([]string, len(s.Grants))
	for i := range s.Grants {
		lines[i] = s.line(i)
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
		if err := fileio.DecodeStrict(text, &f); err != nil {
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
