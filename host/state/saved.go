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

// A Saved is the state that this process has last read or written. A node has hundreds of containers, and most
// operations change one container. Only changed grants are decoded and encoded, and this process does not read its own
// writes again.
type Saved struct {
	State          // as decoded; immutable
	text  []byte   // text of the file that was read; nil if lines is set instead
	lines []string // encoded grants; nil if unknown
	file  openFile // file that was written
}

// CloneWithoutArguments returns a copy with its own list of grants and without WithArguments. The caller replaces the
// grants that hold arguments.
func (s *Saved) CloneWithoutArguments() *Saved {
	return &Saved{State: State{Boot: s.Boot, Grants: slices.Clone(s.Grants)}, text: s.text}
}

// A cache holds the last Saved, initially an empty state. It is safe for concurrent use.
type cache struct{ last atomic.Pointer[Saved] }

func newCache() *cache {
	m := new(cache)
	m.last.Store(&Saved{})
	return m
}

// lastAt returns the last written state if the named file still has its content, else nil.
func (m *cache) lastAt(name string) *Saved {
	now, err := stampOf(name) // read before m.last, so that a concurrent write gives a mismatch
	if last := m.last.Load(); err == nil && last.file.matches(now) {
		return last
	}
	return nil
}

// replace replaces the cached state, unless another goroutine has replaced it meanwhile.
func (m *cache) replace(last, next *Saved) {
	if m.last.CompareAndSwap(last, next) {
		last.file.close()
	} else {
		next.file.close()
	}
}

// Next returns the state as it would read back after saving, and whether it differs from s. Unchanged grants keep
// their address.
func (s *Saved) Next(boot string, grants []*Grant) (next *Saved, isChanged bool, err error) {
	next = &Saved{State: State{Boot: boot, Grants: make([]*Grant, len(grants))}, lines: make([]string, len(grants))}
	isChanged = boot != s.Boot || len(grants) != len(s.Grants)
	from := 0 // most grants are at their former index, or a few places later
	for i, g := range grants {
		for from < len(s.Grants) && s.Grants[from].ID != g.ID {
			from++
		}
		if from == len(s.Grants) {
			from = max(slices.IndexFunc(s.Grants, func(was *Grant) bool { return was.ID == g.ID }), 0)
		}
		if from < len(s.Grants) && s.Grants[from].Equal(g) {
			next.Grants[i], next.lines[i] = s.Grants[from], s.line(from)
			isChanged = isChanged || from != i
			continue
		}
		if next.lines[i], next.Grants[i], err = encodeGrant(g); err != nil {
			return nil, false, fmt.Errorf("state of %s: %w", g.ID, err)
		}
		isChanged = isChanged || from != i || next.lines[i] != s.line(from) || g.Engine.isNameOnly() && g.Engine != s.Grants[from].Engine
	}
	if !isChanged && s.text != nil { // the same state can have another text
		isChanged = !bytes.Equal(next.Encode(), s.text)
	}
	return next, isChanged, nil
}

// line returns the encoded text of a grant.
func (s *Saved) line(i int) string {
	if s.lines == nil {
		return string(compactJSON(newFileGrant(s.Grants[i])))
	}
	return s.lines[i]
}

// Equal reports whether two grants have the same text in the state file, and the same name in engine-names.json.
func (g *Grant) Equal(h *Grant) bool {
	return SameGrant(&g.Grant, &h.Grant) && g.Immovable == h.Immovable &&
		g.Spec == h.Spec && g.Engine == h.Engine &&
		g.State == h.State && g.Creator == h.Creator && g.Main == h.Main && g.Since == h.Since && g.Deadline == h.Deadline && g.Lease == h.Lease && g.HasHelper == h.HasHelper
}

// SameGrant reports whether two grants have the same request and got the same CPUs, quota and weight. It ignores lost
// CPUs and Immovable.
func SameGrant(g, h *hybrid.Grant) bool {
	request := h.Request
	request.Immovable = g.Immovable
	return g.Request == request && g.CPUs == h.CPUs && g.Exclusive == h.Exclusive && slices.Equal(g.Fractions, h.Fractions) &&
		g.Quota == h.Quota && g.Weight == h.Weight && g.TopologyMet == h.TopologyMet
}

// Encode encodes the state for decodeState.
func (s *Saved) Encode() []byte {
	lines := make([]string, len(s.Grants))
	for i := range s.Grants {
		lines[i] = s.line(i)
	}
	head := fileHead{Version: Version}
	if head.Features = s.UsedFeatures(); len(head.Features) > 0 {
		head.Version = FeatureVersion
	}
	return encodeLines(head, s.Boot, lines)
}

// encodeLines encodes a state with one line per grant.
func encodeLines(file fileHead, boot string, lines []string) []byte {
	const end = "\n]}\n"
	fields := compactJSON(file)
	head := fmt.Sprintf(`%s,"boot":%s,"grants":[`, fields[:len(fields)-1], compactJSON(boot))
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

// encodeGrant returns the encoded text of a grant, and the grant as Store.Load would return it.
func encodeGrant(g *Grant) (line string, read *Grant, err error) {
	f := newFileGrant(g)
	text := compactJSON(f)
	if bytes.Contains(text, []byte(`\ufffd`)) { // replaces invalid UTF-8
		f = fileGrant{}
		if err := fileio.DecodeStrict(text, &f); err != nil {
			return "", nil, err
		}
	}
	decoded, err := f.grant()
	if g.Engine.isNameOnly() {
		decoded.Engine.Name = storedName(g.Engine.Name)
	}
	return string(text), &decoded, err
}

// compactJSON encodes plain data. It panics if the data cannot be encoded.
func compactJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
