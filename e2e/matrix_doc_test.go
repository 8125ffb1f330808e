package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The matrix is in the document between these lines. It was measured on a machine with these sizes. On
// another machine, a number is right if it equals the same size (host, view or floor) there.
const (
	matrixBegin = "<!-- matrix: measured by e2e/view_matrix_test.go, go test ./e2e -run TestViewMatrix -update -->"
	matrixEnd   = "<!-- end of matrix -->"
)

var documented = sizes{host: 32, limit: 1500}

// atLeast has the runtimes with a minimum: they never count fewer CPUs than that if the machine has as many.
var atLeast = map[string]int{
	"Go `GOMAXPROCS`, go.mod with 1.25": 2,
}

// here converts a documented number to the number on this machine.
func here(row string, column, number int, s sizes) int {
	switch number {
	case documented.host:
		return s.host
	case documented.view():
		if column == 1 { // quota only
			return min(s.host, max(s.view(), atLeast[row]))
		}
		return s.view()
	case documented.floor():
		return s.floor()
	}
	return number
}

// elsewhere converts a number of this machine to the documented number.
func elsewhere(number int, s sizes) int {
	switch number {
	case s.host:
		return documented.host
	case s.view():
		return documented.view()
	case s.floor():
		return documented.floor()
	}
	return number
}

// checkDoc compares the document's matrix with the measurement, or updates it.
func checkDoc(t *testing.T, file string, measured map[string][]int, s sizes) {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) && os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Log("no documents in the guest: the matrix was not compared")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), matrixBegin+"\n")
	table, after, found := strings.Cut(rest, matrixEnd)
	if !found {
		t.Fatalf("%s has no lines %q and %q", file, matrixBegin, matrixEnd)
	}
	rows := parseMatrix(t, table)
	for _, row := range rows {
		numbers, ok := measured[row.name]
		if !ok {
			t.Logf("%s: not measured here", row.name)
			continue
		}
		for i, n := range numbers {
			if want := here(row.name, i, row.numbers[i], s); n == want {
				continue
			} else if !*update {
				t.Errorf("%s, column %d: measured %d; %s has %d, which is %d here", row.name, i, n, file, row.numbers[i], want)
			}
			row.numbers[i] = elsewhere(n, s)
		}
	}
	for name := range measured {
		if !slices.ContainsFunc(rows, func(r matrixRow) bool { return r.name == name }) {
			t.Errorf("%s has no row %s", file, name)
		}
	}
	if *update {
		text := before + matrixBegin + "\n" + renderMatrix(rows) + matrixEnd + after
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name := range explained {
		if !strings.Contains(after, name) {
			t.Errorf("%s does not explain %s", file, name)
		}
	}
}

// A matrixRow is a row of the document's table.
type matrixRow struct {
	name    string
	numbers []int
}

const matrixHead = "| program or function | no limit | quota only | cpuset only | candor |\n| --- | --: | --: | --: | --: |\n"

func parseMatrix(t *testing.T, table string) (rows []matrixRow) {
	body, ok := strings.CutPrefix(strings.TrimSpace(table)+"\n", matrixHead)
	if !ok {
		t.Fatalf("the matrix does not begin with\n%s", matrixHead)
	}
	for line := range strings.Lines(body) {
		cells := strings.Split(strings.Trim(line, "| \n"), "|")
		row := matrixRow{name: strings.TrimSpace(cells[0])}
		for _, cell := range cells[1:] {
			n, err := strconv.Atoi(strings.Trim(cell, " *"))
			if err != nil {
				t.Fatalf("matrix row %q: %v", line, err)
			}
			row.numbers = append(row.numbers, n)
		}
		if len(row.numbers) != 4 {
			t.Fatalf("matrix row %q: want 4 numbers", line)
		}
		rows = append(rows, row)
	}
	return rows
}

// renderMatrix formats the table. Right numbers are bold.
func renderMatrix(rows []matrixRow) string {
	var b strings.Builder
	b.WriteString(matrixHead)
	for _, row := range rows {
		b.WriteString("| " + row.name)
		for i, n := range row.numbers {
			if i > 0 && n == documented.view() {
				fmt.Fprintf(&b, " | **%d**", n)
			} else {
				fmt.Fprintf(&b, " | %d", n)
			}
		}
		b.WriteString(" |\n")
	}
	return b.String()
}
