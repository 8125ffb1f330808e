package spec

import "fmt"

// Helpers is the level at which Candor accounts for the helpers of a container, such as the process that copies its output.
// A higher level includes the lower levels.
type Helpers int

// Levels of accounting. The zero value is HelpersShow.
const (
	HelpersShow   Helpers = iota // the CPU time of helpers is shown; no helper moves to another cgroup
	HelpersPlace                 // a helper that serves a single container runs under the limit of this container
	HelpersCharge                // the CPU time of shared helpers counts against the limit
)

// HelpersWords are the words that UnmarshalText accepts, in the order of the levels.
var HelpersWords = []string{"show", "place", "charge"}

// UnmarshalText parses one of HelpersWords.
func (h *Helpers) UnmarshalText(text []byte) error {
	for level, word := range HelpersWords {
		if string(text) == word {
			*h = Helpers(level)
			return nil
		}
	}
	return fmt.Errorf("helpers %.40q: must be show, place or charge", text)
}

// MarshalText returns the text that UnmarshalText parses.
func (h Helpers) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// String returns the word of a level.
func (h Helpers) String() string {
	if h < 0 || int(h) >= len(HelpersWords) {
		return fmt.Sprintf("helpers(%d)", int(h))
	}
	return HelpersWords[h]
}
