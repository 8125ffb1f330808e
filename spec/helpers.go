package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Helpers is the level to which a container pays for its helpers, the processes outside of the container that work for it
// (package ledger). The levels are ordered: each level includes the lower levels, and a higher level only restricts the
// container itself. The zero value is ShowHelpers.
type Helpers uint8

// Levels of helper accounting.
const (
	ShowHelpers   Helpers = iota // the CPU time of helpers is shown
	PlaceHelpers                 // a helper that serves only this container shares the container's quota
	ChargeHelpers                // the CPU time of all helpers counts toward the container's limit
)

// HelpersWords are the words that ParseHelpers accepts, the lowest level first.
var HelpersWords = []string{"show", "place", "charge"}

// ParseHelpers parses one of HelpersWords.
func ParseHelpers(s string) (Helpers, error) {
	at := slices.Index(HelpersWords, s)
	if at < 0 {
		return ShowHelpers, fmt.Errorf("helpers %.40q: must be one of %s", s, strings.Join(HelpersWords, ", "))
	}
	return Helpers(at), nil
}

// String returns the word that ParseHelpers parses, or the number of an unknown level.
func (h Helpers) String() string {
	if h > ChargeHelpers {
		return strconv.Itoa(int(h))
	}
	return HelpersWords[h]
}

// MarshalText returns the text that UnmarshalText parses.
func (h Helpers) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText parses one of HelpersWords.
func (h *Helpers) UnmarshalText(text []byte) (err error) {
	level, err := ParseHelpers(string(text))
	if err == nil {
		*h = level
	}
	return err
}

// Check returns an error for a level that ParseHelpers cannot return.
func (h Helpers) Check() error {
	_, err := ParseHelpers(h.String())
	return err
}
