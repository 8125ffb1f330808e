package state

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/spec"
)

// drawGrant draws a grant such as a node makes.
func drawGrant(t *rapid.T, name string) Grant {
	milliseconds := func(label string) time.Duration {
		return time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, label)) * time.Millisecond
	}
	process := func(label string) Process {
		return Process{rapid.IntRange(0, 1<<22).Draw(t, label), rapid.Uint64().Draw(t, label)}
	}
	var cpus cpuset.Set
	for _, cpu := range rapid.SliceOfN(rapid.IntRange(0, cpuset.Max-1), 1, 20).Draw(t, "cpus") {
		cpus.Add(cpu)
	}
	g := Grant{
		State:   rapid.SampledFrom([]Phase{Pending, Running, Held}).Draw(t, "state"),
		Creator: process("creator"), Main: process("main"),
		Since: milliseconds("since"), Deadline: milliseconds("deadline"),
		Lease:     Lease{process("lessee"), milliseconds("lease"), time.Millisecond, time.Duration(rapid.Int64Range(1000, 1<<40).Draw(t, "most")) * time.Microsecond, rapid.Bool().Draw(t, "frozen")},
		HasHelper: rapid.Bool().Draw(t, "has helper"),
		Spec: spec.Spec{
			Period:   time.Duration(rapid.Int64Range(1000, 1000000).Draw(t, "period")) * time.Microsecond,
			Burst:    drawBurst(t),
			Mems:     rapid.Bool().Draw(t, "mems"),
			View:     rapid.SampledFrom([]spec.View{spec.ViewAffinity, spec.ViewCPU, spec.ViewFull, spec.ViewFullStat, spec.ViewCPUStat}).Draw(t, "view"),
			OnResize: rapid.SampledFrom([]string{"none", "signal:HUP", "exec:echo \"<&>\""}).Draw(t, "on-resize"),
			Helpers:  rapid.SampledFrom([]spec.Helpers{spec.HelpersShow, spec.HelpersPlace, spec.HelpersCharge}).Draw(t, "helpers"),
			Command:  ProgramName(strings.ToValidUTF8(rapid.String().Draw(t, "command"), "�")), // JSON is text
		},
	}
	g.Request = hybrid.Request{
		ID:        name,
		Class:     hybrid.Class(rapid.IntRange(0, 1).Draw(t, "class")),
		Policy:    hybrid.Policy(rapid.IntRange(0, 1).Draw(t, "policy")),
		Limit:     hybrid.Milli(rapid.Int64Range(0, int64(hybrid.MaxLimit)).Draw(t, "limit")),
		Guarantee: hybrid.Milli(rapid.Int64Range(-1, int64(hybrid.MaxLimit)).Draw(t, "guarantee")),
		Topology:  hybrid.TopologyPolicy(rapid.IntRange(0, 4).Draw(t, "wish")),
		Immovable: rapid.Bool().Draw(t, "immovable"),
	}
	g.CPUs, g.Exclusive = cpus, cpus.Lowest(cpus.Count()-1)
	g.Fractions = []hybrid.Fraction{{CPU: cpus.Last(), Milli: hybrid.Milli(rapid.IntRange(1, 999).Draw(t, "fraction"))}}
	g.Quota = hybrid.Milli(rapid.Int64Range(0, int64(hybrid.MaxLimit)).Draw(t, "quota"))
	g.Weight = hybrid.Milli(rapid.Int64Range(1, 1<<20).Draw(t, "weight"))
	return g
}

func drawBurst(t *rapid.T) spec.Burst {
	by := rapid.SampledFrom([]spec.BurstBy{spec.BurstTime, spec.BurstKernel, spec.BurstQuota, spec.BurstAuto}).Draw(t, "burst by")
	if by != spec.BurstTime {
		return spec.Burst{By: by}
	}
	return spec.Burst{Time: time.Duration(rapid.Int64Range(0, 1000000).Draw(t, "burst")) * time.Microsecond}
}

// textOf returns the file of a state.
func textOf(s State) []byte { return (&Saved{State: s}).Encode() }

// A saved state reads back unchanged.
func TestStateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{Boot: "b"}
		for _, name := range []string{"web", "db-1", "log_2.x"}[:rapid.IntRange(0, 3).Draw(t, "count")] {
			g := drawGrant(t, name)
			s.Grants = append(s.Grants, &g)
		}
		got, err := decodeState(textOf(s))
		if err != nil {
			t.Fatalf("%v\n%s", err, textOf(s))
		}
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("saved  %+v\nloaded %+v", s, got)
		}
	})
}

// TestSavedCache makes random changes: the encoded text is the complete state, and reads back as Next predicted.
func TestSavedCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last := new(Saved)
		var grants []*Grant
		for range rapid.IntRange(1, 8).Draw(t, "operations") {
			for _, name := range []string{"web", "db-1", "log_2.x", "a"} {
				switch i := slices.IndexFunc(grants, func(g *Grant) bool { return g.ID == name }); {
				case rapid.Bool().Draw(t, name+" stays"):
				case i < 0:
					g := drawGrant(t, name)
					grants = append(grants, &g)
				case rapid.Bool().Draw(t, name+" goes"):
					grants = slices.Delete(slices.Clone(grants), i, i+1)
				default:
					g := drawGrant(t, name)
					grants = slices.Clone(grants)
					grants[i] = &g
				}
			}
			for _, g := range grants {
				g.Command += rapid.SampledFrom([]string{"", "", "\xff\xfe", "�", `\ufffd`}).Draw(t, "no text")
			}
			next, isChanged, err := last.Next("b", grants)
			if err != nil {
				t.Skip(err) // no such grant is saved
			}
			text, want := next.Encode(), textOf(State{Boot: "b", Grants: grants})
			if string(text) != string(want) {
				t.Fatalf("saved %s\nwant  %s", text, want)
			}
			if is := string(text) != string(last.Encode()); is != isChanged {
				t.Fatalf("another: %t, said to be: %t\nwas %s\nis  %s", is, isChanged, last.Encode(), text)
			}
			if read, err := decodeState(text); err != nil || !reflect.DeepEqual(read.Grants, next.Grants) && len(grants) > 0 {
				t.Fatalf("%v\nloaded   %+v\nforeseen %+v", err, read.Grants, next.Grants)
			}
			switch rapid.SampledFrom([]string{"saved", "read", "neither"}).Draw(t, "then") {
			case "saved":
				last = next
			case "read":
				read, err := decodeState(text)
				if err != nil {
					t.Fatal(err)
				}
				last = &Saved{State: read, text: text}
			}
		}
	})
}

const goodState = `{"version":1,"boot":"b","grants":[{"name":"web","state":"running","creator":{"pid":1,"start":2},
	"main":{"pid":3,"start":4},"sinceMs":5,"request":{"class":"sensitive","policy":"strict","limit":1500,
	"topology":"prefer","periodUs":100000,"view":"full","onResize":"none","command":"x"},
	"cpus":"0-1","exclusive":"0","fractions":[{"cpu":1,"milli":500}],"quota":1500,"weight":1000}]}`

// Values that Candor never writes are refused, and the error names their place.
func TestDecodeStateRefuses(t *testing.T) {
	if _, err := decodeState([]byte(goodState)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ old, new, want string }{
		{`"version":1`, `"version":0`, "version 0: must be 1 to 3"},
		{`"version":1,`, ``, "version 0: must be 1"},
		{`"version":1`, `"version":4,"features":{}`, "version 4: written by a newer"},
		{`"version":1`, `"version":4`, "version 4: written by a newer Candor; this Candor reads versions up to 3 with the features helpers and live-view"},
		{`"version":1`, `"version":3,"features":["helpers","turbo"]`, `version 3, feature "turbo": written by a newer Candor`},
		{`"version":1`, `"version":4,"features":["turbo"],"speed":1`, `version 4, feature "turbo": written by a newer Candor`},
		{`"version":1`, `"version":3,"features":"helpers"`, "not a state"},
		{`"version":1`, `"version":-1`, "version -1"},
		{`"version":1`, `"version":"1"`, "not a state"},
		{`"boot"`, `"boots"`, "unknown field"},
		{`}]}`, `}]}x`, "not a state"},
		{`}]}`, `}]}{}`, "not a state"},
		{`"web"`, `"../web"`, "letters"},
		{`"web"`, `""`, "letters"},
		{`"running"`, `"walking"`, "pending, running or held"},
		{`"sensitive"`, `"touchy"`, "sensitive"},
		{`"cpus":"0-1"`, `"cpus":"0-9999"`, "CPU"},
		{`"cpus":"0-1"`, `"cpus":"1"`, "exclusive CPU 0: the container has CPU 1"},
		{`"cpu":1`, `"cpu":7`, "fraction"},
		{`"milli":500`, `"milli":1000`, "fraction"},
		{`"quota":1500`, `"quota":-1`, "quota"},
		{`"limit":1500`, `"limit":-5`, "limit"},
		{`"periodUs":100000`, `"periodUs":0`, "period"},
		{`"view":"full"`, `"view":"half"`, "view"},
		{`"onResize":"none"`, `"onResize":"signal:KILL"`, "on-resize"},
	} {
		text := strings.Replace(goodState, test.old, test.new, 1)
		if text == goodState {
			t.Fatalf("%q is not in the state", test.old)
		}
		_, err := decodeState([]byte(text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s -> %s: got %v, want %q", test.old, test.new, err, test.want)
		}
		if newer := strings.Contains(test.want, "newer"); errors.Is(err, ErrNewer) != newer {
			t.Errorf("%s: newer is %t", test.new, !newer)
		}
	}
	twice := strings.Replace(goodState, "}]}", "},"+goodState[strings.Index(goodState, `{"name"`):], 1) //nolint:gocritic // goodState has a name
	if _, err := decodeState([]byte(twice)); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("one name twice: %v", err)
	}
}

// Every file gives an error, or a state that is saved as it was read.
func FuzzDecodeState(f *testing.F) {
	f.Add([]byte(goodState))
	f.Add([]byte(`{"version":1,"boot":"","grants":[]}`))
	f.Add([]byte(`{"version":4}`))
	f.Add([]byte(strings.Replace(goodState, `"version":1`, `"version":3,"features":["helpers"]`, 1)))
	f.Add([]byte(strings.Replace(goodState, `"onResize":`, `"helpers":"charge","onResize":`, 1)))
	f.Add([]byte(strings.Replace(goodState, `"onResize":`, `"helpers":"hide","onResize":`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeState(data)
		if err != nil {
			return
		}
		s.WithArguments = nil // they are not saved
		again, err := decodeState(textOf(s))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%v\nread  %+v\nagain %+v", err, s, again)
		}
	})
}
