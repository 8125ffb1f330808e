package kube

import (
	"encoding/json"
	"fmt"
)

// HintKey is the annotation by which the scheduler tells a node what it has counted with. It is no
// setting: whoever reads settings passes it over.
const HintKey = Domain + "/hint"

// A Hint is what the scheduler has reserved for a pod.
type Hint struct {
	Node string `json:"node"`
	// Containers are the CPUs of the sensitive ones, by name, as nodecpu.FormatCPUs writes them: "0-2,7:500m".
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

// ParseHint reads it.
func ParseHint(text string) (h Hint, err error) {
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return Hint{}, fmt.Errorf("annotation %s: %w", HintKey, err)
	}
	return h, nil
}
