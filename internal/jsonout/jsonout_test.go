package jsonout

import (
	"bytes"
	"io"
	"testing"
)

// writes counts the calls of Write.
type writes struct {
	bytes.Buffer
	calls int
}

func (w *writes) Write(p []byte) (int, error) {
	w.calls++
	return w.Buffer.Write(p)
}

func TestWrite(t *testing.T) {
	value := map[string]any{"name": "<a&b>", "cpus": []int{0, 1}}
	for _, c := range []struct {
		write func(io.Writer, any) error
		want  string
	}{
		{Write, "{\n  \"cpus\": [\n    0,\n    1\n  ],\n  \"name\": \"<a&b>\"\n}\n"},
		{WriteLine, `{"cpus":[0,1],"name":"<a&b>"}` + "\n"},
	} {
		var out writes
		if err := c.write(&out, value); err != nil || out.String() != c.want || out.calls != 1 {
			t.Errorf("%v, %d calls, %s; want %s", err, out.calls, &out, c.want)
		}
		if err := c.write(&out, func() {}); err == nil {
			t.Error("a function is written as JSON")
		}
	}
}

func TestMilli(t *testing.T) {
	for cpus, want := range map[float64]float64{0: 0, 1.5: 1500, 0.0123: 12.3, 1.0 / 3: 333.333, 0.0000004: 0} {
		if got := Milli(cpus); got != want {
			t.Errorf("%v CPUs: %v milli-CPU, want %v", cpus, got, want)
		}
	}
}
