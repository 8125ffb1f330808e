package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/simulate"
)

// words is a flag value: a list of words out of a few, by comma.
type words struct {
	values, of []string
}

// wordsFlag adds a flag that takes a list of words.
func wordsFlag(cmd *cobra.Command, w *words, of, values []string, name, usage string) {
	*w = words{values, of}
	cmd.Flags().Var(w, name, usage+" ["+strings.Join(of, "|")+", by comma]")
	complete(cmd, name, of)
}

func (w *words) String() string { return strings.Join(w.values, ",") }
func (w *words) Type() string   { return "words" }

// Set reads a list.
func (w *words) Set(text string) error {
	values := strings.Split(text, ",")
	for _, v := range values {
		if !slices.Contains(w.of, v) {
			return fmt.Errorf("%q: want one of %s, or several by comma", v, strings.Join(w.of, ", "))
		}
	}
	w.values = values
	return nil
}

// A sensitiveFlag selects the sensitive containers; each selection is a point of the sweep.
type sensitiveFlag struct {
	text       string
	selections []simulate.Selection
}

func (s *sensitiveFlag) String() string { return s.text }
func (s *sensitiveFlag) Type() string   { return "shares" }

const sensitiveForms = "want shares from 0 to 1 such as 0.5 or 0.1,0.5, a range from:to:step, by-class, or by=FILE"

// maxShares bounds the points of a range.
const maxShares = 1001

// Set reads a list by comma.
func (s *sensitiveFlag) Set(text string) error {
	s.text, s.selections = text, nil
	for _, part := range strings.Split(text, ",") {
		if err := s.part(part); err != nil {
			return err
		}
	}
	return nil
}

func (s *sensitiveFlag) part(part string) error {
	if part == "by-class" {
		s.selections = append(s.selections, simulate.Selection{ByClass: true})
		return nil
	}
	if path, isFile := strings.CutPrefix(part, "by="); isFile {
		list, err := readWith(path, simulate.ReadList)
		if err != nil {
			return err
		}
		s.selections = append(s.selections, simulate.Selection{Listed: list})
		return nil
	}
	shares, err := parseShares(part)
	for _, v := range shares {
		s.selections = append(s.selections, simulate.Selection{Share: v})
	}
	return err
}

// parseShares reads a number, or a range with both its ends.
func parseShares(part string) ([]float64, error) {
	var v []float64
	for _, word := range strings.Split(part, ":") {
		n, err := strconv.ParseFloat(word, 64)
		if err != nil || !(n >= 0 && n <= 1) {
			return nil, fmt.Errorf("%q: %s", part, sensitiveForms)
		}
		v = append(v, n)
	}
	if len(v) == 1 {
		return v, nil
	}
	if len(v) != 3 || v[2] == 0 || v[1] < v[0] || (v[1]-v[0])/v[2] > maxShares {
		return nil, fmt.Errorf("%q: %s; a step above 0, %d shares at most", part, sensitiveForms, maxShares)
	}
	var shares []float64
	const slack = 1e-9 // of steps that a float misses by a hair
	for i := 0; ; i++ {
		share := v[0] + float64(i)*v[2]
		if share > v[1]+slack {
			return shares, nil
		}
		shares = append(shares, math.Round(share*1e9)/1e9)
	}
}
