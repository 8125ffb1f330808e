package engine

import (
	"bytes"
	"slices"
	"strings"
)

// Diff returns the change as a diff. Removed lines begin with "-", added lines with "+", and the unchanged lines around them with a
// space.
func (c *Change) Diff() string {
	lines := diff(split(c.Before), split(c.After))
	var out strings.Builder
	out.WriteString("--- " + c.File + "\n+++ " + c.File + "\n")
	const around = 3
	last := -1
	for i, line := range lines {
		near := false
		for j := max(0, i-around); j <= min(len(lines)-1, i+around); j++ {
			near = near || lines[j][0] != ' '
		}
		if !near {
			continue
		}
		if last >= 0 && last != i-1 {
			out.WriteString("…\n")
		}
		last = i
		out.WriteString(line + "\n")
	}
	return out.String()
}

func split(text []byte) []string {
	text = bytes.TrimSuffix(text, []byte("\n"))
	if len(text) == 0 {
		return nil
	}
	return strings.Split(string(text), "\n")
}

// maxCompared bounds the number of entries in the table of middle, which then takes 16 MB.
const maxCompared = 4 << 20

// marked returns the lines with a mark before each line.
func marked(mark string, lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = mark + line
	}
	return out
}

// diff returns the lines of a minimal diff. It marks the common beginning and end as unchanged, and compares the lines between them
// in middle.
func diff(before, after []string) (lines []string) {
	head := 0
	for head < len(before) && head < len(after) && before[head] == after[head] {
		head++
	}
	lines = marked(" ", before[:head])
	before, after = before[head:], after[head:]
	tail := 0
	for tail < len(before) && tail < len(after) && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	lines = append(lines, middle(before[:len(before)-tail], after[:len(after)-tail])...)
	return append(lines, marked(" ", before[len(before)-tail:])...)
}

// middle compares texts by their longest common subsequence. If the texts are too long for this, the diff removes all old lines and
// adds all new lines.
func middle(before, after []string) (lines []string) {
	if len(before)*len(after) > maxCompared {
		return append(marked("-", before), marked("+", after)...)
	}
	// common[i][j] is the length of the longest common subsequence of before[i:] and after[j:].
	common := make([][]int32, len(before)+1)
	for i := range common {
		common[i] = make([]int32, len(after)+1)
	}
	for i, b := range slices.Backward(before) {
		for j := len(after) - 1; j >= 0; j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if b == after[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			lines = append(lines, " "+before[i])
			i, j = i+1, j+1
		case i < len(before) && (j == len(after) || common[i+1][j] >= common[i][j+1]):
			lines = append(lines, "-"+before[i])
			i++
		default:
			lines = append(lines, "+"+after[j])
			j++
		}
	}
	return lines
}
