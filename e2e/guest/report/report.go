// Package report is the protocol between the guest's init and the host: the list of commands and, over a serial line, the output
// and the end of each command.
package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// PlanFile is where the guest finds its Plan.
const PlanFile = "/guest/plan.json"

// Plan is the list of commands of a guest.
type Plan struct {
	Cgroup   int // cgroup version to mount
	Commands []Command
}

// Command is a program that the guest runs.
type Command struct {
	Name  string
	Args  []string      // Args[0] is the path in the guest
	Env   []string      // added to the guest's own
	Dir   string        // working directory; empty: /
	Limit time.Duration // killed after that time; 0: one minute
}

// Result describes the end of a command.
type Result struct {
	Name      string
	Code      int    // exit code; 128+n: killed by signal n
	Error     string // why it could not be started, or was killed
	Output    []byte
	Wall      time.Duration // in the guest's time
	Leftovers []string      // cgroups, mounts and processes that are there since
}

// A line that begins with mark is init's, all else is the command's output.
const mark = "\x1e"

type end struct {
	Code      int
	Error     string `json:",omitempty"`
	Wall      time.Duration
	Leftovers []string `json:",omitempty"`
}

// Begin reports the start of a command.
func Begin(w io.Writer) { fmt.Fprint(w, mark+"begin\n") }

// End reports the end of a command. Its last line can lack the newline.
func End(w io.Writer, r Result) {
	b, err := json.Marshal(end{r.Code, r.Error, r.Wall, r.Leftovers})
	if err != nil {
		panic(err) // strings and numbers only
	}
	fmt.Fprintf(w, "%send %s\n", mark, b)
}

// Done reports the end of the report. failure is the error of init, or "".
func Done(w io.Writer, failure string) {
	fmt.Fprintf(w, "%sdone %s\n", mark, strings.ReplaceAll(failure, "\n", "; "))
}

// ErrEarly reports that the guest ended before the end of its report.
var ErrEarly = errors.New("the guest ended early")

// Read follows a guest until it is done, and copies the output of the commands to out, if it is not nil.
func Read(r io.Reader, commands []Command, out io.Writer) ([]Result, error) {
	if out == nil {
		out = io.Discard
	}
	var results []Result
	var output bytes.Buffer
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return results, ErrEarly
		}
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r") // the serial line is a terminal: \r\n
		text, said, ok := strings.Cut(line, mark)
		if text != "" || !ok {
			fmt.Fprintln(io.MultiWriter(&output, out), text)
		}
		if !ok {
			continue
		}
		word, rest, _ := strings.Cut(said, " ")
		switch word {
		case "begin":
			output.Reset()
		case "end":
			if len(results) == len(commands) {
				return results, errors.New("the guest told more ends than it had commands")
			}
			var e end
			if err := json.Unmarshal([]byte(rest), &e); err != nil {
				return results, fmt.Errorf("the guest said %q: %w", line, err)
			}
			results = append(results, Result{commands[len(results)].Name, e.Code, e.Error, bytes.Clone(output.Bytes()), e.Wall, e.Leftovers})
		case "done":
			return results, doneError(rest, len(results), len(commands))
		}
	}
}

func doneError(failure string, results, commands int) error {
	if failure != "" {
		return errors.New("init: " + failure)
	}
	if results != commands {
		return fmt.Errorf("the guest ran %d of %d commands", results, commands)
	}
	return nil
}
