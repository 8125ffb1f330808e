package trace

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// A part is one of the files of a Google table.
type part struct {
	path   string
	number int
}

// partName matches the file names of both common layouts: all tables in a single directory, as on mirrors, or a directory for each table,
// as at Google.
var partName = regexp.MustCompile(`part-(\d{5})-of-(\d{5})\.csv(\.gz)?$`)

// findParts returns the parts of a table, sorted by number. The numbers must be consecutive, but need not start at 0.
func findParts(dir, name string) ([]part, error) {
	var parts []part
	for _, pattern := range []string{name + "-part-*", filepath.Join(name, "part-*")} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if m := partName.FindStringSubmatch(path); m != nil {
				n, _ := strconv.Atoi(m[1]) // five digits
				parts = append(parts, part{path, n})
			}
		}
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%s: no file %s-part-00000-of-….csv or .csv.gz: %w", dir, name, os.ErrNotExist)
	}
	slices.SortFunc(parts, func(a, b part) int { return a.number - b.number })
	return parts, checkRun(parts)
}

// checkRun returns an error if a number is missing or repeated.
func checkRun(parts []part) error {
	for i := 1; i < len(parts); i++ {
		before, this := parts[i-1], parts[i]
		switch {
		case this.number == before.number:
			return fmt.Errorf("%s and %s are the same part: remove one of them", before.path, this.path)
		case this.number != before.number+1:
			return fmt.Errorf("%s follows %s: part %d is missing", this.path, before.path, before.number+1)
		}
	}
	return nil
}

// A googleTable reads the rows of all parts of a table. Times must not decrease.
type googleTable struct {
	table         // the current part
	number int    // of the first part
	parts  []part // the parts after the current part
	fields int    // number of fields of a row
	time   Micros // of the current row
	last   Micros
}

func openGoogleTable(dir, name string, fields int) (*googleTable, error) {
	parts, err := findParts(dir, name)
	if err != nil {
		return nil, err
	}
	g := &googleTable{parts: parts, number: parts[0].number, fields: fields}
	return g, g.nextPart()
}

// nextPart opens the next part. After an error, the next call opens the part after the failed part.
func (g *googleTable) nextPart() error {
	path := g.parts[0].path
	g.parts = g.parts[1:]
	t, err := openTable(path)
	if err != nil {
		return err
	}
	if g.table.close != nil {
		_ = g.table.close() // the file was only read
	}
	t.whole = true
	g.table = *t
	return nil
}

// next reads the next row and its time, and opens the next part if necessary.
func (g *googleTable) next() error {
	err := g.table.next()
	for err == io.EOF && len(g.parts) > 0 {
		if err = g.nextPart(); err == nil {
			err = g.table.next()
		}
	}
	if err != nil {
		return err
	}
	if err := g.checkFields(g.fields); err != nil {
		return err
	}
	t, ok := parseUint(g.table.fields[0])
	if !ok || t > 1<<63-1 {
		return g.rowError("time", "%q: must be microseconds", shorten(g.table.fields[0]))
	}
	if Micros(t) < g.last {
		return g.rowError("events out of order", "%d after %d", t, g.last)
	}
	g.time, g.last = Micros(t), Micros(t)
	return nil
}

// field returns a field of the current row.
func (g *googleTable) field(i int) []byte { return g.table.fields[i] }
