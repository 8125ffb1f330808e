package kube

import (
	"encoding/json"
	"fmt"
)

// HintKey is the name of the annotation with the CPUs that the scheduler has reserved for the pod. The hint is not a setting: Parse ignores
// it.
const HintKey = Domain + "/hint"

// maxHintSize bounds a hint, in bytes. The hint of a pod with a hundred containers on the largest machine is smaller.
const maxHintSize = 1 << 16

// maxNodeName bounds a node's name, in bytes, as Kubernetes does.
const maxNodeName = 253

// A Hint holds the CPUs that the scheduler has reserved for a pod.
type Hint struct {
	Node string `json:"node"`
	// Containers maps the name of each sensitive container to its CPUs, in the format of nodecpu.FormatCPUs: "0-2,7:500m".
	Containers map[string]string `json:"containers"`
}

// String returns the value of the annotation: the hint as JSON.
func (h Hint) String() string {
	text, err := json.Marshal(h)
	if err != nil {
		return "" // not reached, because strings can always be encoded
	}
	return string(text)
}

// ParseHint parses the value of a hint annotation. Only the exact output of String is valid.
func ParseHint(text string) (h Hint, err error) {
	if len(text) > maxHintSize {
		return Hint{}, fmt.Errorf("annotation %s: %d bytes: the maximum is %d", HintKey, len(text), maxHintSize)
	}
	err = json.Unmarshal([]byte(text), &h)
	if err == nil && h.String() != text {
		err = fmt.Errorf("%s: other fields or another order than the scheduler writes", shorten(fmt.Sprintf("%q", text)))
	}
	if err == nil && len(h.Node) > maxNodeName {
		err = fmt.Errorf("a node's name of %d bytes", len(h.Node))
	}
	if err != nil {
		return Hint{}, fmt.Errorf("annotation %s: %w: must be such as %s", HintKey, err, Hint{"node-1", map[string]string{"app": "0-2,7:500m"}})
	}
	return h, nil
}
