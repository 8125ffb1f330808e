package nri

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/kube"
)

// hinted returns the hint that a scheduler writes for the container app on the node n1.
func hinted(cpus string) string {
	return hintedOn("n1", cpus)
}

// hintedOn returns the hint for the container app on a node.
func hintedOn(node, cpus string) string {
	return kube.Hint{Node: node, Containers: map[string]string{"app": cpus}}.String()
}

// TestHint: a container gets the CPUs of its hint if they rank as high as the node's choice, the lowest CPUs.
// A hint never gives a container CPUs that it could not get without the hint.
func TestHint(t *testing.T) {
	const taken, missed, none = host.HintTaken, host.HintMissed, host.NoHint
	for name, test := range map[string]struct {
		hint      func(low, high string) string
		quota     int64
		highTaken bool // another container runs on the highest CPU
		high      bool // the container must get the highest CPU
		nameless  bool // the engine has no node name
		want      host.HintResult
		logged    string
	}{
		"same as the node":              {hint: func(low, _ string) string { return hinted(low) }, want: taken},
		"another CPU":                   {hint: func(_, high string) string { return hinted(high) }, high: true, want: taken},
		"a fraction of another CPU":     {hint: func(_, high string) string { return hinted(high + ":500m") }, quota: 50000, high: true, want: taken},
		"CPU of another container":      {hint: func(_, high string) string { return hinted(high) }, highTaken: true, want: missed, logged: "the hint does not fit"},
		"more CPUs than the limit":      {hint: func(low, high string) string { return hinted(low + "," + high) }, want: missed, logged: "the hint does not fit"},
		"a whole CPU for a fraction":    {hint: func(_, high string) string { return hinted(high) }, quota: 50000, want: missed, logged: "the hint does not fit"},
		"no such CPU":                   {hint: func(_, _ string) string { return hinted("8000") }, want: none, logged: "cannot read the hint"},
		"a CPU beyond the machine":      {hint: func(_, _ string) string { return hinted("1000:500m") }, quota: 50000, want: missed, logged: "the hint does not fit"},
		"a CPU twice":                   {hint: func(low, _ string) string { return hinted(low + "," + low) }, want: none, logged: "cannot read the hint"},
		"not a hint":                    {hint: func(_, high string) string { return high }, want: none, logged: "cannot read the hint"},
		"for another container":         {hint: func(_, high string) string { return strings.Replace(hinted(high), "app", "log", 1) }, want: none},
		"for another node":              {hint: func(_, high string) string { return hintedOn("n2", high) }, want: none, logged: "the hint is for another node"},
		"for a node with a longer name": {hint: func(_, high string) string { return hintedOn("n1.example", high) }, want: none, logged: "the hint is for another node"},
		"node name unknown":             {hint: func(_, high string) string { return hintedOn("n2", high) }, nameless: true, high: true, want: taken},
		"of a later version":            {hint: func(_, high string) string { return strings.TrimSuffix(hinted(high), "}") + `,"memory":"0"}` }, want: none, logged: "cannot read the hint"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			if !test.nameless {
				l.OnNode("n1")
			}
			all := l.needTwo()
			low, high := cpuset.Of(all.First()), cpuset.Of(all.Last())
			if test.highTaken {
				other := sensitivePod()
				other.Uid, other.Id = "u2", "box2"
				other.Annotations[kube.HintKey] = hinted(high.String())
				l.create(other, l.container("app", "other1", 100000))
				l.hints = nil
			}
			pod := sensitivePod()
			pod.Annotations[kube.HintKey] = test.hint(low.String(), high.String())
			c := l.container("app", "app1", cmp.Or(test.quota, 100000))
			l.create(pod, c)
			want := low
			if test.high {
				want = high
			}
			g := l.grant(pod, c)
			if g.CPUs != want {
				t.Errorf("got CPUs %v, want %v", g.CPUs, want)
			}
			if wants := slices.DeleteFunc([]host.HintResult{test.want}, func(r host.HintResult) bool { return r == none }); !slices.Equal(l.hints, wants) {
				t.Errorf("hints %v, want %v", l.hints, wants)
			}
			if logged := l.log.String(); strings.Contains(logged, "planned again") != (test.logged != "") || !strings.Contains(logged, test.logged) {
				t.Errorf("want %q in the log:\n%s", test.logged, logged)
			}
		})
	}
}

// TestHintIgnored: a restarted container takes over its reserved CPUs instead of the hinted CPUs. A flexible
// container ignores a hint.
func TestHintIgnored(t *testing.T) {
	l := newLab(t)
	all := l.needTwo()
	pod := sensitivePod()
	c := l.started(pod, 100000)
	had := l.grant(pod, c).CPUs
	if _, err := l.StopContainer(ctx, pod, c); err != nil {
		t.Fatal(err)
	}
	if err := l.pods.Group(c.Id).End(); err != nil {
		t.Fatal(err)
	}
	pod.Annotations[kube.HintKey] = hinted(cpuset.Of(all.Last()).String())
	again := l.container("app", "app2", 100000)
	l.create(pod, again)
	if now := l.grant(pod, again).CPUs; now != had || len(l.hints) != 0 {
		t.Errorf("after the restart: got CPUs %v, want %v; hints %v", now, had, l.hints)
	}
	pod.Annotations[kube.ContainerKey("class", "log")] = "flexible"
	pod.Annotations[kube.HintKey] = strings.Replace(hinted("1"), "app", "log", 1)
	l.create(pod, l.container("log", "log1", 50000))
	if len(l.hints) != 0 {
		t.Errorf("flexible container: got hints %v, want none", l.hints)
	}
}

// FuzzHint: an annotation gives a valid hint or an error of a single line.
func FuzzHint(f *testing.F) {
	for _, text := range []string{hinted("0-2,7:500m"), hinted("7:1000m"), hinted("99999999999999999999"), hinted("0-1023"), `{"node":"","containers":{"app":""}}`, "x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, h, err := hintFor(text, "app")
		if err != nil && (h != nil || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: %v, %v", text, h, err)
		}
		if h == nil {
			return
		}
		for i, part := range h.Fractions {
			if part.CPU < 0 || part.CPU >= cpuset.Max || part.Milli < 1 || part.Milli > 999 || h.Exclusive.Contains(part.CPU) || i > 0 && h.Fractions[i-1].CPU >= part.CPU {
				t.Errorf("%q: %+v", text, h)
			}
		}
	})
}
