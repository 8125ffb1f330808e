package trace

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/candor-project/candor/internal/golden"
)

// write renders an event as a line of text.
func (e *Event) write(w io.Writer) {
	fmt.Fprintf(w, "%12.6f %-14v", e.Time.Seconds(), e.Kind)
	switch e.Kind {
	case Submit:
		fmt.Fprintf(w, " slot %d job %d/%d cpu %d memory %d class %d priority %d", e.Container, e.Job, e.Task, e.CPU, e.Memory, e.Class, e.Priority)
	case End:
		fmt.Fprintf(w, " slot %d job %d/%d %v", e.Container, e.Job, e.Task, e.Reason)
	default:
		fmt.Fprintf(w, " machine %d cpu %d memory %d", e.Machine, e.CPU, e.Memory)
	}
	for i, flag := range []string{"at-start", "different-machines", "no-request"} {
		if e.Flags&(1<<i) != 0 {
			fmt.Fprint(w, " ", flag)
		}
	}
	fmt.Fprintln(w)
}

// text renders a trace and the counts of its omitted events.
func text(r Reader) string {
	var b strings.Builder
	var e Event
	err := r.Next(&e)
	for ; err == nil; err = r.Next(&e) {
		e.write(&b)
	}
	if err != io.EOF {
		fmt.Fprintln(&b, "error:", err)
	}
	for _, c := range r.Report().Skipped {
		fmt.Fprintln(&b, "skipped:", c.N, c.Reason, "first at", c.First)
	}
	for _, c := range r.Report().NotModelled {
		fmt.Fprintln(&b, "not modeled:", c.N, c.Reason, "first at", c.First)
	}
	return b.String()
}

// TestReaders: the fixture of each format gives the events in the golden file beside it.
func TestReaders(t *testing.T) {
	for name, spec := range map[string]string{
		"google":           "google2011:testdata/google",
		"google.submitted": "google2011:testdata/google,start=submitted",
		"openb":            "openb:testdata/openb",
		"openb.submitted":  "openb:testdata/openb,pods=default,start=submitted",
		"plain":            "csv:testdata/plain/trace.csv",
		"kubectl":          "kubectl:testdata/kubectl",
		"azure":            "azure:testdata/azure/vmtable.csv,machines=2,cores=8,memory=28",
		"semireal":         "semi-real:testdata/google",
		"kubectl.pending":  "kubectl:testdata/kubectl,start=submitted",
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Open(spec, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if got := r.Header().Source; got != spec {
				t.Errorf("source %q", got)
			}
			golden.Check(t, "testdata/"+name+".txt", text(r))
		})
	}
}
