package cpumap

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/internal/golden"
)

// text returns the text format of a map.
func text(t testing.TB, m *Map, o TextOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := m.Text(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	two := machine(t, "pu:2")
	for name, m := range map[string]*Map{
		"empty.txt":     {Machine: two, Usable: two.Online},
		"two.txt":       {Machine: two, Usable: two.Online, Grants: []hybrid.Grant{sensitive("half", "", hybrid.Fraction{CPU: 0, Milli: 500}), flexible("rest", "1", 0)}},
		"small.txt":     small(t),
		"irregular.txt": irregular(),
		"128.txt":       full(t, "pack:2 numa:1 l3:4 core:8 pu:2"),
		"128numa.txt":   full(t, "pack:2 numa:4 l3:2 core:4 pu:2"),
		"512.txt":       full(t, "pack:2 numa:4 l3:2 core:16 pu:2"),
		"flat.txt":      full(t, "pack:2 core:256"),
	} {
		golden.Check(t, "testdata/"+name, text(t, m, TextOptions{}))
	}
	golden.Check(t, "testdata/small.ascii.txt", text(t, small(t), TextOptions{ASCII: true}))
	golden.Check(t, "testdata/small.color.txt", text(t, small(t), TextOptions{Color: true}))
	golden.Check(t, "testdata/small.wide.txt", text(t, small(t), TextOptions{Columns: 160}))
}

// TestTextShowsEachCPUOnce: on random machines, the map shows each online CPU exactly once, and no line
// exceeds the width.
func TestTextShowsEachCPUOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t)
		columns := rapid.IntRange(40, 200).Draw(t, "columns")
		l := chooseLayout(blocks(m.Machine, m.cells()), columns)
		var drawn cpuset.Set
		for _, b := range l.blocks {
			for _, line := range b.lines {
				for _, p := range line {
					for _, c := range p.cpus {
						if drawn.Contains(c.cpu) {
							t.Fatalf("CPU %d twice", c.cpu)
						}
						drawn.Add(c.cpu)
					}
				}
			}
		}
		if drawn != m.Machine.Online {
			t.Fatalf("drawn %v, online %v", drawn, m.Machine.Online)
		}
		var b bytes.Buffer
		if err := m.Text(&b, TextOptions{Columns: columns}); err != nil {
			t.Fatal(err)
		}
		inMap := true // the legend can need more than 40 columns
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(line, "\n")
			inMap = inMap && !strings.Contains(line, "NAME")
			if inMap && Width(line) > columns || Width(line) > max(columns, 80) {
				t.Fatalf("%d columns in %d: %s", Width(line), columns, line)
			}
			if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
				t.Fatalf("%q", line)
			}
			if strings.HasSuffix(line, " ") {
				t.Fatalf("space at the end of %q", line)
			}
		}
	})
}

// TestColorsChangeNoText: without its escape sequences, the colored text equals the plain text.
func TestColorsChangeNoText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t)
		var plain, colored bytes.Buffer
		_ = m.Text(&plain, TextOptions{})
		_ = m.Text(&colored, TextOptions{Color: true})
		if got := stripColors(colored.String()); got != plain.String() {
			t.Fatalf("colored:\n%s\nplain:\n%s", got, plain.String())
		}
	})
}

// stripColors removes SGR escape sequences.
func stripColors(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, s, _ = strings.Cut(after, "m")
	}
}

// TestShareCharacters: the characters of a CPU are divided by the sizes of its fractions. If there are enough
// characters, each fraction gets at least one.
func TestShareCharacters(t *testing.T) {
	for _, c := range []struct {
		parts []hybrid.Milli
		width int
		want  []int
	}{
		{[]hybrid.Milli{500}, 8, []int{4}},
		{[]hybrid.Milli{500}, 1, []int{1}},
		{[]hybrid.Milli{10}, 8, []int{1}},
		{[]hybrid.Milli{990}, 8, []int{8}},
		{[]hybrid.Milli{10, 980, 10}, 8, []int{1, 6, 1}},
		{[]hybrid.Milli{300, 700}, 1, []int{0, 1}},
		{[]hybrid.Milli{250, 250, 250, 250}, 4, []int{1, 1, 1, 1}},
		{[]hybrid.Milli{100, 200, 300, 400}, 2, []int{0, 0, 1, 1}},
	} {
		cell := cell{pool: fractional}
		for i, m := range c.parts {
			cell.parts = append(cell.parts, part{tag: i, milli: m})
		}
		got := cell.share(c.width)
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%v in %d: %v, want %v", c.parts, c.width, got, c.want)
				break
			}
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"web":            "web",
		"\x1b[31mred":    `\x1b[31mred`,
		"a\nb\tc":        `a\nb\tc`,
		"\u202eevil":     `\u202eevil`,
		"\xff":           `\ufffd`,
		"größe 数":        "größe 数",
		"nul\x00":        `nul\x00`,
		"zero\u200bjoin": `zero\u200bjoin`,
	} {
		if got := Clean(name); got != want {
			t.Errorf("Clean(%q) = %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"short":       "short",
		"0123456789":  "0123456789",
		"0123456789a": "01234…789a",
		"数数数数数数数":     "数数…数数",
	} {
		got := Shorten(name, 10)
		if got != want || Width(got) > 10 {
			t.Errorf("Shorten(%q) = %s, want %s", name, got, want)
		}
	}
}

// TestTags: a container keeps its letter. The letter of an ended container is used again.
func TestTags(t *testing.T) {
	tags := &Tags{}
	numbers := func(ids ...string) []int {
		var grants []hybrid.Grant
		for _, id := range ids {
			grants = append(grants, sensitive(id, "0"))
		}
		tags.update(append(grants, flexible("flexible", "1", 0)))
		var got []int
		for _, id := range ids {
			got = append(got, tags.number[id])
		}
		return got
	}
	for _, step := range []struct {
		ids  []string
		want string
	}{
		{[]string{"a", "b", "c"}, "[0 1 2]"},
		{[]string{"b", "c"}, "[1 2]"},
		{[]string{"b", "c", "d", "e"}, "[1 2 0 3]"},
		{nil, "[]"},
		{[]string{"x"}, "[0]"},
	} {
		if got := numbers(step.ids...); len(got) != len(step.ids) || sprint(got) != step.want {
			t.Errorf("%v: %v, want %s", step.ids, got, step.want)
		}
	}
	if len(tags.number) != 1 {
		t.Errorf("tags of ended containers remain: %v", tags.number)
	}
}
