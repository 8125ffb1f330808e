package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/candor-project/candor/experiment"
	"github.com/candor-project/candor/internal/interference"
)

// TestClassifyWarning: the output begins with the warning about other processes, which JSON also has.
func TestClassifyWarning(t *testing.T) {
	class := &experiment.Class{Class: experiment.Flexible, Decided: true, Interference: &interference.Report{CPUs: 2, UseMilli: 460}}
	var f classifyFlags
	var text, data bytes.Buffer
	if err := f.show(&text, class); err != nil || !strings.HasPrefix(text.String(), "Warning: other processes used 23 % of the CPUs of this measurement\nWORKLOAD ") {
		t.Errorf("%v\n%s", err, &text)
	}
	f.output.value = "json"
	var got struct{ Interference interference.Report }
	if err := f.show(&data, class); err != nil || json.Unmarshal(data.Bytes(), &got) != nil || got.Interference != *class.Interference {
		t.Errorf("%v\n%s", err, &data)
	}
	text.Reset()
	f.output.value, class.Interference = "table", nil
	if err := f.show(&text, class); err != nil || !strings.HasPrefix(text.String(), "WORKLOAD ") {
		t.Errorf("%v\n%s", err, &text)
	}
}
