// Package docblock reads commands from Markdown pages, so that tests run exactly the commands that the documents show.
package docblock

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A Block is a code block with commands of root, and the output that the block shows.
type Block struct {
	// Commands are the lines after the prompt "# ", without the prompt. A command that continues on the next line contains the
	// backslash and the newline.
	Commands []string
	// Output are the other lines of the block.
	Output string
}

// Chart matches the reference to a released chart of Candor, with its version, in a helm command.
var Chart = regexp.MustCompile(`oci://\S+/charts/candor --version \S+`)

// Blocks returns the code blocks with commands in a section of a page, in their order. The section starts after its heading, such as
// "### Docker and Podman", and ends at the next heading. A section without such a block, or with a block that has no end, is an
// error.
func Blocks(file, heading string) (blocks []Block, err error) {
	lines, err := section(file, heading)
	if err != nil {
		return nil, err
	}
	var block *Block
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, "```") && block == nil:
			block = &Block{}
		case strings.HasPrefix(line, "```"):
			if len(block.Commands) > 0 {
				blocks = append(blocks, *block)
			}
			block = nil
		case block != nil:
			block.add(line)
		}
	}
	if block != nil {
		return nil, fmt.Errorf("%s: a code block below %q has no end", file, heading)
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("%s: no block of commands below %q", file, heading)
	}
	return blocks, nil
}

// add adds a line to the last command if the line continues that command. Otherwise it adds the line to the commands or to the
// output.
func (b *Block) add(line string) {
	last := len(b.Commands) - 1
	switch command, isCommand := strings.CutPrefix(line, "# "); {
	case last >= 0 && b.Output == "" && strings.HasSuffix(b.Commands[last], "\\"):
		b.Commands[last] += "\n" + line
	case isCommand:
		b.Commands = append(b.Commands, command)
	default:
		b.Output += line + "\n"
	}
}

// codeSpan is a command or another text between backquotes.
var codeSpan = regexp.MustCompile("`([^`]+)`")

// Row returns the commands in a row of a table: its texts between backquotes that have several words. The first cell of the row is the
// given text. A row without commands is an error.
func Row(file, heading, first string) (commands []string, err error) {
	lines, err := section(file, heading)
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		cells, isRow := strings.CutPrefix(line, "| "+first+" | ")
		if !isRow {
			continue
		}
		for _, span := range codeSpan.FindAllStringSubmatch(cells, -1) {
			if strings.Contains(span[1], " ") {
				commands = append(commands, span[1])
			}
		}
	}
	if len(commands) == 0 {
		return nil, fmt.Errorf("%s: no row %q with commands below %q", file, first, heading)
	}
	return commands, nil
}

// section returns the lines between a heading and the next heading. The lines of code blocks are no headings.
func section(file, heading string) (lines []string, err error) {
	page, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found, isCode := false, false
	for line := range strings.SplitSeq(string(page), "\n") {
		if strings.HasPrefix(line, "```") {
			isCode = !isCode
		}
		if !isCode && strings.HasPrefix(line, "#") {
			if found {
				return lines, nil
			}
			found = line == heading
			continue
		}
		if found {
			lines = append(lines, line)
		}
	}
	if !found {
		return nil, fmt.Errorf("%s: no heading %q", file, heading)
	}
	return lines, nil
}
