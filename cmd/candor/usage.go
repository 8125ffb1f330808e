package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/candor-project/candor/bandwidth/record"
	"github.com/candor-project/candor/bandwidth/timescale"
	"github.com/candor-project/candor/internal/figure"
	"github.com/candor-project/candor/internal/texttable"
)

const usageLong = `Summarize a recording of candor record at several timescales: the CPUs that a cgroup
used in windows of 10 ms, 100 ms, 1 s, 5 s and 1 min. A quota limits the CPU time in
each period of 100 ms, so the mean of a minute does not show the effect of the quota.

PEAK/MEAN is the highest use divided by the mean. BURSTINESS is the standard deviation
divided by the mean. A recording under a limit shows the CPU time that the cgroup got,
not its demand. The report marks such a recording.`

const usageExample = `  candor usage web.usage
  candor usage web.usage -o svg >web.svg
  candor usage node.usage --group /kubepods/pod1/web -o json
  candor usage node.usage --top 3
  candor usage web.usage --from 10m --to 15m`

func newUsageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "usage FILE",
		Short:   "Summarize a recording at several timescales",
		Long:    usageLong,
		Example: usageExample,
		Args:    oneFile,
	}
	output := outputFlag(cmd, "table", "wide", "json", "svg", "png")
	group := cmd.Flags().String("group", "", "show this cgroup only")
	part := addPartFlags(cmd)
	top := cmd.Flags().Int("top", 10, "number of cgroups to show, by CPU time; 0: all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *top < 0 {
			return badInput("--top %d: must be 0 or more", *top)
		}
		s, err := readRecording(args[0], part)
		if err != nil {
			return err
		}
		if err := pick(s, *group, *top); err != nil {
			return err
		}
		switch out := cmd.OutOrStdout(); output.value {
		case "json":
			return s.JSON(out)
		case "table", "wide":
			return writeUsage(out, tableWidth(out, output), s)
		default:
			return drawGroup(out, args[0], s, output.value)
		}
	}
	return cmd
}

// writeUsage writes a summary as a table and remarks. width is the width of the terminal; 0: unlimited.
func writeUsage(out io.Writer, width int, s *timescale.Summary) error {
	var text strings.Builder
	if s.Interference != nil {
		fmt.Fprintln(&text, s.Interference.Warning())
	}
	fmt.Fprintln(&text, s.About())
	t := texttable.Table{Ranks: []int{0, 0, 5, 0, 4, 2, 0, 1, 3}, FirstWidth: 20}
	t.Titles, t.Rows = s.Table()
	_ = t.Write(&text, width) // a write to memory cannot fail
	for _, line := range s.Remarks() {
		fmt.Fprintln(&text, line)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// addPartFlags adds the flags that select a part of a recording.
func addPartFlags(cmd *cobra.Command) *timescale.Part {
	part := &timescale.Part{}
	cmd.Flags().DurationVar(&part.From, "from", 0, "start of the analyzed part, as the time since the recording's start")
	cmd.Flags().DurationVar(&part.To, "to", 0, "end of the analyzed part, since the recording's start; 0: the recording's end")
	return part
}

// readRecording summarizes a part of a recording. It returns an error with the exit code for bad input if the recording is
// invalid or lacks the part.
func readRecording(file string, part *timescale.Part) (*timescale.Summary, error) {
	if part.From < 0 || part.To < 0 || part.To > 0 && part.To <= part.From {
		return nil, badInput("--from %v --to %v: --from must be 0 or more, and --to later", part.From, part.To)
	}
	in, err := os.Open(file)
	if err != nil {
		return nil, badInput("%w", err)
	}
	defer in.Close()
	s, err := timescale.ReadPart(in, *part)
	if isOneOf(err, record.ErrFormat, record.ErrCut, timescale.ErrNoPart) {
		return nil, badInput("%s: %w", file, err)
	}
	return s, err
}

// pick reduces s.Groups to the requested cgroups, the busiest first. It drops a cgroup that was recorded only as an ancestor,
// unless --group names it.
func pick(s *timescale.Summary, group string, top int) error {
	slices.SortStableFunc(s.Groups, func(a, b timescale.Group) int { return cmp.Compare(b.Used.CPU, a.Used.CPU) })
	if group != "" {
		all := names(s.Groups)
		s.Groups = slices.DeleteFunc(s.Groups, func(g timescale.Group) bool { return g.Name != group })
		if len(s.Groups) == 0 {
			return badInput("--group %.100q: not in the recording; it has %s", group, all)
		}
	}
	if group == "" {
		s.Groups = slices.DeleteFunc(s.Groups, func(g timescale.Group) bool { return g.Encloses })
	}
	if top > 0 && len(s.Groups) > top {
		s.Groups = s.Groups[:top]
	}
	return nil
}

// names returns the names of the first groups, for an error message.
func names(groups []timescale.Group) string {
	var list []string
	for i := range groups[:min(len(groups), 5)] {
		list = append(list, shorten(groups[i].Name, 100))
	}
	if len(groups) > len(list) {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// drawGroup draws the busiest of the groups.
func drawGroup(out io.Writer, file string, s *timescale.Summary, form string) error {
	if len(s.Groups) == 0 {
		return badInput("no group in the recording: nothing to draw")
	}
	in, err := os.Open(file)
	if err != nil {
		return badInput("%w", err)
	}
	defer in.Close()
	if err := s.Groups[0].Trace(in, s.Part); isOneOf(err, record.ErrFormat, record.ErrCut) {
		return badInput("%s: cannot read it a second time for the picture: %w", file, err)
	} else if err != nil {
		return err
	}
	p := s.Groups[0].Plot(s.CPUs)
	if form == "svg" {
		return figure.SVG(out, p)
	}
	return figure.PNG(out, p)
}
