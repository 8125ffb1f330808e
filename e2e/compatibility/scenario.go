package compatibility

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Variable is the environment variable with the name of the cell that a test measures.
const Variable = "CANDOR_COMPATIBILITY"

// mark precedes the lines of a test's output that Parse reads.
const mark = "compatibility: "

// Selected returns the cell that a test measures. It skips the test if no cell is selected.
func Selected(t *testing.T) Cell {
	t.Helper()
	name := os.Getenv(Variable)
	if name == "" {
		t.Skip("make matrix selects a cell of docs/compatibility.md")
	}
	cells, err := ParseCells([]string{name})
	if err != nil {
		t.Fatalf("$%s: %v", Variable, err)
	}
	return cells[0]
}

// The steps of the scenario.
const (
	Start     = "the start of the engine with Candor"
	Sensitive = "a sensitive container with 1500m"
	Flexible  = "a flexible container with 300m"
	Resize    = "a resize"
	Killed    = "a killed candor"
	End       = "the end"
)

// Step begins a step of the scenario. The reason of a failed cell names the step.
func Step(t *testing.T, step string) {
	t.Helper()
	t.Log(mark + "step " + step)
}

// RecordVersions records the versions with which a cell is measured.
func RecordVersions(t *testing.T, versions ...string) {
	t.Helper()
	t.Log(mark + "versions " + strings.Join(versions, ", "))
}

// CheckVersion skips the test if the engine reports another version than the version of the cell.
func (e Engine) CheckVersion(t *testing.T, version string) {
	t.Helper()
	if !strings.HasPrefix(version, e.Version) && !strings.HasPrefix(version, "v"+e.Version) {
		t.Skipf("the installed version of %s is %s", e.Title, version)
	}
}

// Kernel describes the kernel of this machine with the version of the cgroups that Candor uses. isSystemd reports whether systemd creates
// the cgroups.
func Kernel(t *testing.T, cgroup int, isSystemd bool) string {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("Linux %s, cgroup v%d", unix.ByteSliceToString(name.Release[:]), cgroup)
	if isSystemd {
		text += " with systemd"
	}
	return text
}

// Unsupported ends the test: the cell cannot work, for a known reason.
func Unsupported(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Skip(mark + "unsupported " + fmt.Sprintf(format, args...))
}

// A Result is the result of a cell.
type Result struct {
	Cell     string `json:"cell"`
	Answer   string `json:"answer"`   // "yes", or the reason
	Versions string `json:"versions"` // of the kernel, the engine and the OCI runtime
	Date     string `json:"date"`     // of the measurement, as 2026-11-27
}

// Yes is the answer of a cell that works.
const Yes = "yes"

// A NotMeasuredError is the reason for which a test could not measure a cell.
type NotMeasuredError struct{ Reason string }

func (e *NotMeasuredError) Error() string { return "not measured: " + e.Reason }

var (
	// location precedes a message of a test.
	location = regexp.MustCompile(`^\s*[a-z0-9_]+\.go:\d+: `)
	ended    = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): TestCompatibility\b`)
)

// maxReason bounds a reason, in bytes.
const maxReason = 200

// Parse returns the answer and the versions in the output of a test with -test.v. The output of a guest's test contains the output of
// another test.
func Parse(output string) (answer, versions string, err error) {
	var p parser
	for line := range strings.Lines(output) {
		if p.read(strings.TrimRight(line, "\n")); p.unsupported != "" {
			return shorten(p.unsupported), p.versions, nil
		}
	}
	switch {
	case p.outcome == "PASS" && p.step == End:
		return Yes, p.versions, nil
	case p.outcome == "SKIP", p.step == "": // without a step, the test did not begin
		return "", p.versions, &NotMeasuredError{shorten(cmp.Or(p.reason, "the test ended early"))}
	}
	return shorten(p.step + ": " + cmp.Or(p.reason, "the test ended early")), p.versions, nil
}

// A parser reads the lines of a test.
type parser struct {
	step, versions, unsupported string
	outcome                     string // PASS, FAIL or SKIP; "": the test did not end
	reason                      string // first message of the step
	isOpen                      bool   // the next lines can belong to the message
}

func (p *parser) read(line string) {
	if end := ended.FindStringSubmatch(line); end != nil {
		p.outcome, p.isOpen = worst(p.outcome, end[1]), false
		return
	}
	if _, text, isMarked := strings.Cut(line, mark); isMarked {
		p.isOpen = false
		switch kind, value, _ := strings.Cut(text, " "); kind {
		case "step":
			p.step, p.reason = value, "" // messages of earlier steps are no errors
		case "versions":
			p.versions = value
		case "unsupported":
			p.unsupported = value
		}
		return
	}
	at := location.FindString(line)
	text := line[len(at):]
	switch {
	case at == "" && p.isOpen:
		p.reason += " " + text
	case p.reason == "" && (at != "" && !strings.HasPrefix(text, "=== ") || strings.HasPrefix(line, "panic: ")):
		p.reason, p.isOpen = text, at != ""
	default:
		p.isOpen = false
	}
}

// worst returns the worse of the outcomes of two nested tests: FAIL is worse than SKIP, and SKIP is worse than PASS.
func worst(a, b string) string {
	for _, outcome := range []string{"FAIL", "SKIP"} {
		if a == outcome || b == outcome {
			return outcome
		}
	}
	return "PASS"
}

// temporary is a directory for temporary files, which has another name in each test.
var temporary = regexp.MustCompile(`(?:/var)?/tmp/(?:[^\s/:]+/)*`)

// shorten returns a reason that fits into a cell of a Markdown table. Of the path of a temporary file, only its name remains.
func shorten(text string) string {
	text = temporary.ReplaceAllString(text, "")
	text = strings.Join(strings.Fields(strings.NewReplacer("|", "/", "`", "'", "<", "(", ">", ")").Replace(text)), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}
