package experiment

import (
	"errors"
	"strings"
	"testing"
)

func TestMetric(t *testing.T) {
	for _, test := range []struct {
		metric, output string
		want           float64
		err            string // part of the error; "" for none
	}{
		{`rate: ([0-9.]+)/s`, "rate: 1.5/s\nrate: 2.5/s\n", 2.5, ""},
		{`[0-9,]+`, "in all 1,234 events", 1234, ""},
		{`^(\d+)$`, "a 1\n2\n3 b\n", 2, ""},
		{`total:\s+(\S+)s`, "total:   0.25s", 0.25, ""},
		{`rate: (\S+)`, "nothing here", 0, "no match"},
		{`rate: (\S+)`, "rate: fast", 0, `"fast" is not a number`},
		{`rate: (\S+)`, "rate: NaN", 0, "not a number"},
		{`rate: (\S+)`, "rate: +Inf", 0, "not a number"},
		{".rate", `{"rate": 3}`, 3, ""},
		{".runs.1.time", "starting [1/2]\n" + `{"runs":[{"time":1},{"time":"2.5"}]}` + "\nbye", 2.5, ""},
		{".rate", `{"rate": 1}` + "\n" + `{"rate": 2}` + "\n{ broken", 2, ""},
		{".rate.mean", `{"rate": 3}`, 0, "no .rate.mean"},
		{".runs.7", `{"runs": [1]}`, 0, "no .runs.7"},
		{`t (\S+)`, "t 1,5", 0, "is not a number"},
		{`t (\S+)`, "t 1e300", 0, "is not a number"},
		{".rate", strings.Repeat("[", 1<<20), 0, "no JSON"},
		{".rate", `{"rate": true}`, 0, "not a number"},
		{".rate", "no json", 0, "no JSON"},
		{`qps=^([0-9]+)/s`, "3/s", 3, ""},
		{"qps=.rate", `{"rate": 3}`, 3, ""},
		{`rate=rate=(\d+)`, "rate=4 5", 4, ""},
	} {
		m, err := ParseMetric(test.metric)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.In([]byte(test.output))
		switch {
		case test.err == "" && (err != nil || got != test.want):
			t.Errorf("%s in %q: %g, %v; want %g", test.metric, test.output, got, err, test.want)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s in %q: %v, want an error with %q", test.metric, test.output, err, test.err)
		}
	}
}

func TestBadMetric(t *testing.T) {
	for _, text := range []string{"", ".", ".a..b", "(", "(a)(b)", "qps=", "qps=.", "qps=a(", `qps=(\d+)`} {
		if _, err := ParseMetric(text); !errors.Is(err, ErrBadMetric) {
			t.Errorf("%q: %v, want ErrBadMetric", text, err)
		}
	}
}

// TestMetricName: a metric has the given name, or its pattern as its name.
func TestMetricName(t *testing.T) {
	for text, want := range map[string][2]string{
		"qps=.rate": {"qps", ".rate"}, ".rate": {".rate", ".rate"}, `a b=(\d)`: {`a b=(\d)`, `a b=(\d)`}, "x=y=(.)": {"x", "y=(.)"},
	} {
		if m, err := ParseMetric(text); err != nil || m.Name != want[0] || m.Pattern != want[1] {
			t.Errorf("%s: %q, %q, %v; want %q", text, m.Name, m.Pattern, err, want)
		}
	}
}

func FuzzMetric(f *testing.F) {
	f.Add(".a.0.b", `{"a":[{"b":1}]}`)
	f.Add(`x(\d+)`, "x1 x22")
	f.Fuzz(func(t *testing.T, text, output string) {
		m, err := ParseMetric(text)
		if err != nil {
			return
		}
		if value, err := m.In([]byte(output)); err == nil && (value != value || value-value != 0) {
			t.Errorf("%q in %q: %g", text, output, value)
		}
	})
}
