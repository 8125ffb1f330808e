// Package report is the protocol between the init program of a guest and the host. The host passes a Plan with commands to the guest.
// Over a serial line, the guest sends a report with the output and the result of each command.
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

// PlanFile is the path of the Plan in the guest, as JSON.
const PlanFile = "/guest/plan.json"

// Plan is the list of commands of a guest.
type Plan struct {
	Cgroup   int // cgroup version to mount
	Commands []Command
}

// Command is a program that the guest runs.
type Command struct {
	Name  string
	Args  []string      // Args[0] is the path of the program in the guest
	Env   []string      // added to the environment of init
	Dir   string        // working directory; "": /
	Limit time.Duration // time after which init kills the command; 0: one minute
}

// Result describes the end of a command.
type Result struct {
	Name      string
	Code      int    // exit code; 128+n: killed by signal n
	Error     string // reason why init could not start the command, or has killed it; "": none
	Output    []byte
	Wall      time.Duration // run time, on the guest's clock
	Leftovers []string      // cgroups, mounts and processes that the command has left behind
}

// mark precedes each message of init on the serial line. Everything else is output of the current command.
const mark = "\x1e"

// An end is the JSON encoding of a Result in a message.
type end struct {
	Code      int
	Error     string `json:",omitempty"`
	Wall      time.Duration
	Leftovers []string `json:",omitempty"`
}

// Begin reports the start of a command.
func Begin(w io.Writer) { fmt.Fprint(w, mark+"begin\n") }

// End reports the end of a command. If the command's output ends without a newline, the message is on the same line.
func End(w io.Writer, r Result) {
	b, err := json.Marshal(end{r.Code, r.Error, r.Wall, r.Leftovers})
	if err != nil {
		panic(err) // strings and numbers only
	}
	fmt.Fprintf(w, "%send %s\n", mark, b)
}

// Done ends the report. failure is the error of init, or "".
func Done(w io.Writer, failure string) {
	fmt.Fprintf(w, "%sdone %s\n", mark, strings.ReplaceAll(failure, "\n", "; "))
}

// ErrEarly means that the guest ended before the end of its report.
var ErrEarly = errors.New("the guest ended early")

// Read reads the report of a guest to its end, and returns the results of the commands. If out is not nil, Read copies the output of
// the commands to out.
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
		text, message, ok := strings.Cut(line, mark)
		if text != "" || !ok {
			fmt.Fprintln(io.MultiWriter(&output, out), text)
		}
		if !ok {
			continue
		}
		word, rest, _ := strings.Cut(message, " ")
		switch word {
		case "begin":
			output.Reset()
		case "end":
			if len(results) == len(commands) {
				return results, errors.New("the guest reported more ends than it had commands")
			}
			var e end
			if err := json.Unmarshal([]byte(rest), &e); err != nil {
				return results, fmt.Errorf("cannot parse the guest's message %q: %w", line, err)
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
