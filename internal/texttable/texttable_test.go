package texttable

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestWrite(t *testing.T) {
	table := Table{Titles: []string{"NAME", "µs", "LOAD", "MOVES"}, Rows: [][]string{{"candor", "12", "0.5", "3"}, {"x", "1234", "0.25", "-"}}, Ranks: []int{0, 2, 0, 1}}
	const all = "NAME    µs    LOAD  MOVES\ncandor  12    0.5   3\nx       1234  0.25  -\n"
	for width, want := range map[int]string{
		0: all, 100: all, 25: all,
		24: "NAME    LOAD  MOVES\ncandor  0.5   3\nx       0.25  -\nHidden: µs. Use -o wide for all columns.\n",
		18: "NAME    LOAD\ncandor  0.5\nx       0.25\nHidden: µs, MOVES. Use -o wide for all columns.\n",
		5:  "NAME    LOAD\ncandor  0.5\nx       0.25\nHidden: µs, MOVES. Use -o wide for all columns.\n",
	} {
		var out strings.Builder
		if err := table.Write(&out, width); err != nil || out.String() != want {
			t.Errorf("width %d: %v\n%s\nwant\n%s", width, err, &out, want)
		}
	}
	table.Ranks = nil
	var out strings.Builder
	if err := table.Write(&out, 5); err != nil || out.String() != all {
		t.Errorf("no ranks: %v\n%s", err, &out)
	}
}

func TestLastWidth(t *testing.T) {
	table := Table{Titles: []string{"NAME", "AGE", "COMMAND"}, Rows: [][]string{{"web", "3s", "nginx -g daemöns"}, {"db", "9h", "postgres"}}, Ranks: []int{0, 1, 2}, LastWidth: 9}
	const hidden = ". Use -o wide for all columns.\n"
	for width, want := range map[int]string{
		0:  "NAME  AGE  COMMAND\nweb   3s   nginx -g daemöns\ndb    9h   postgres\n",
		27: "NAME  AGE  COMMAND\nweb   3s   nginx -g daemöns\ndb    9h   postgres\n",
		26: "NAME  AGE  COMMAND\nweb   3s   nginx -g daemö…\ndb    9h   postgres\n",
		20: "NAME  AGE  COMMAND\nweb   3s   nginx -g…\ndb    9h   postgres\n",
		19: "NAME  AGE\nweb   3s\ndb    9h\nHidden: COMMAND" + hidden,
	} {
		var out strings.Builder
		if err := table.Write(&out, width); err != nil || out.String() != want {
			t.Errorf("width %d: %v\n%s\nwant\n%s", width, err, &out, want)
		}
	}
}

// TestFirstWidth: the first column loses the beginnings of its cells after the last column is cut as far as possible, and before a
// column is hidden.
func TestFirstWidth(t *testing.T) {
	table := Table{Titles: []string{"GROUP", "MEAN", "NOTE"}, Rows: [][]string{{"/kubepods/pod1/web", "1.5", "throttled"}, {"", "2.0", "-"}}, Ranks: []int{0, 1, 0}, FirstWidth: 8, LastWidth: 6}
	for width, want := range map[int]string{
		0:  "GROUP               MEAN  NOTE\n/kubepods/pod1/web  1.5   throttled\n                    2.0   -\n",
		35: "GROUP               MEAN  NOTE\n/kubepods/pod1/web  1.5   throttled\n                    2.0   -\n",
		34: "GROUP               MEAN  NOTE\n/kubepods/pod1/web  1.5   throttl…\n                    2.0   -\n",
		22: "GROUP     MEAN  NOTE\n…od1/web  1.5   throt…\n          2.0   -\n",
		21: "GROUP          NOTE\n…ods/pod1/web  throt…\n               -\nHidden: MEAN. Use -o wide for all columns.\n",
	} {
		var out strings.Builder
		if err := table.Write(&out, width); err != nil || out.String() != want {
			t.Errorf("width %d: %v\n%s\nwant\n%s", width, err, &out, want)
		}
	}
	if got := table.Width(); got != 35 {
		t.Errorf("width %d, want 35", got)
	}
}

// TestFits: no row is wider than the terminal if the columns of rank 0 are not, and a column is hidden only if all columns do not fit.
func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns, rows := rapid.IntRange(1, 8).Draw(t, "columns"), rapid.IntRange(0, 4).Draw(t, "rows")
		texts := rapid.StringMatching(`[a-zµ]{1,9}`)
		table := Table{Titles: rapid.SliceOfN(texts, columns, columns).Draw(t, "titles"), Ranks: rapid.SliceOfN(rapid.IntRange(0, 3), columns, columns).Draw(t, "ranks")}
		for range rows {
			table.Rows = append(table.Rows, rapid.SliceOfN(texts, columns, columns).Draw(t, "row"))
		}
		width := rapid.IntRange(1, 80).Draw(t, "width")
		var wide, narrow strings.Builder
		if table.Write(&wide, 0) != nil || table.Write(&narrow, width) != nil {
			t.Fatal("writes to memory do not fail")
		}
		if widest(&wide) <= width && wide.String() != narrow.String() {
			t.Fatalf("the table fits, but a column is hidden:\n%s", &narrow)
		}
		needed := Table{Ranks: []int{}}
		for i, rank := range table.Ranks {
			if rank > 0 {
				continue
			}
			needed.Titles = append(needed.Titles, table.Titles[i])
			for r := range table.Rows {
				if len(needed.Rows) <= r {
					needed.Rows = append(needed.Rows, nil)
				}
				needed.Rows[r] = append(needed.Rows[r], table.Rows[r][i])
			}
		}
		var least strings.Builder
		if len(needed.Titles) == 0 || needed.Write(&least, 0) != nil || widest(&least) > width {
			return
		}
		text, _, _ := strings.Cut(narrow.String(), "Hidden: ")
		for line := range strings.Lines(text) {
			if utf8.RuneCountInString(strings.TrimRight(line, " \n")) > width {
				t.Fatalf("wider than %d:\n%s", width, &narrow)
			}
		}
	})
}

// widest returns the width of the longest line in characters.
func widest(text *strings.Builder) (width int) {
	for line := range strings.Lines(text.String()) {
		width = max(width, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
	}
	return width
}
