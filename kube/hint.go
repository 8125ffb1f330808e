package kube

import (
	"encoding/json"
	"fmt"
)

// HintKey is the annotation with the CPUs that the scheduler has reserved. It is not a setting: parsers of settings ignore it.
const HintKey = Domain + "/hint"

// longestHint is more than a pod of a hundred containers needs on the largest machine.
const longestHint = 1 << 16

// longestNode is the longest name that a node may have.
const longestNode = 253

// A Hint holds the CPUs that the scheduler has reserved for a pod.
type Hint struct {
	Node string `json:"node"`
	// Containers are the CPUs of the sensitive containers, by name, in the form of nodecpu.FormatCPUs: "0-2,7:500m".
	Containers map[string]string `json:"containers"`
}

// String writes the hint as the annotation has it.
func (h Hint) String() string {
	text, err := json.Marshal(h)
	if err != nil {
		return "" // strings always have a text
	}
	return string(text)
}

// ParseHint parses exactly the output of String.
func ParseHint(text string) (h Hint, err error) {
	if len(text) > longestHint {
		return Hint{}, fmt.Errorf("annotation %s: %d bytes: the maximum is %d", HintKey, len(text), longestHint)
	}
	err = json.Unmarshal([]byte(text), &h)
	if err == nil && h.String() != text {
		err = fmt.Errorf("%s: other fields or another order than the scheduler writes", shorten(fmt.Sprintf("%q", text)))
	}
	if err == nil && len(h.Node) > longestNode {
		err = fmt.Errorf("a node's name of %d bytes", len(h.Node))
	}
	if err != nil {
		return Hint{}, fmt.Errorf("annotation %s: %w: must be such as %s", HintKey, err, Hint{"node-1", map[string]string{"app": "0-2,7:500m"}})
	}
	return h, nil
}
