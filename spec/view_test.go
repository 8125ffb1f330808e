package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/hybrid"
)

// TestViews: each view has the parts that its name lists.
func TestViews(t *testing.T) {
	for view, want := range map[View]struct {
		files, memory, stat        bool
		withoutMemory, withoutStat View
	}{
		ViewAffinity: {false, false, false, ViewAffinity, ViewAffinity},
		ViewCPU:      {true, false, false, ViewCPU, ViewCPU},
		ViewFull:     {true, true, false, ViewCPU, ViewFull},
		ViewFullStat: {true, true, true, ViewCPUStat, ViewFull},
		ViewCPUStat:  {true, false, true, ViewCPUStat, ViewCPU},
	} {
		if view.HasFiles() != want.files || view.HasMemory() != want.memory || view.HasStat() != want.stat ||
			view.WithoutMemory() != want.withoutMemory || view.WithoutStat() != want.withoutStat {
			t.Errorf("%s: %t, %t, %t, %s, %s", view, view.HasFiles(), view.HasMemory(), view.HasStat(), view.WithoutMemory(), view.WithoutStat())
		}
		got, err := ParseView(string(view))
		if isWord := slices.Contains(ViewWords, string(view)); isWord != (err == nil) || isWord && got != view || isWord == (view == ViewCPUStat) {
			t.Errorf("%s: parsed as %q, %v", view, got, err)
		}
	}
	for _, text := range []string{"", "FULL", "full ", "memory", "stat", strings.Repeat("x", 1000)} {
		if v, err := ParseView(text); err == nil || len(err.Error()) > 150 || !strings.Contains(err.Error(), "must be affinity, cpu, full or full+stat") {
			t.Errorf("%.20q: %q, %v", text, v, err)
		}
	}
	for _, test := range []struct {
		view      View
		forbidden []View
		want      View
	}{
		{ViewFull, nil, ViewFull},
		{ViewFull, []View{ViewFullStat, ViewCPU}, ViewFull},
		{ViewFullStat, []View{ViewFullStat}, ViewFull},
		{ViewFullStat, []View{ViewFullStat, ViewFull}, ViewCPU},
		{ViewFull, []View{ViewFull, ViewCPU}, ViewAffinity},
		{ViewAffinity, []View{ViewAffinity}, ViewCPU},
		{ViewCPU, []View{ViewAffinity, ViewCPU, ViewFull}, ViewFullStat},
		{ViewCPU, []View{ViewAffinity, ViewCPU, ViewFull, ViewFullStat}, ViewCPU},
	} {
		if got := test.view.Avoid(test.forbidden); got != test.want {
			t.Errorf("%s without %v: %s, want %s", test.view, test.forbidden, got, test.want)
		}
	}
	if DefaultView(hybrid.Sensitive) != ViewFull || DefaultView(hybrid.Flexible) != ViewAffinity {
		t.Error("the default views have changed")
	}
}
