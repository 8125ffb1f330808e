package metrics

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/candor-project/candor/internal/golden"
)

const (
	page      = "../docs/reference/metrics.md" // lists the metrics
	task      = "../docs/metrics.md"           // lists the alerts
	rules     = "../deploy/prometheus/candor.rules.yaml"
	rulesTest = "../deploy/prometheus/candor.rules.test.yaml"
	boards    = "../deploy/grafana/*.json"
	scheduler = "../docs/reference/scheduler.md" // lists the metrics of candor-scheduler
)

// families returns the names of the served metrics, and a row of the documentation table for each.
func families(t *testing.T) (names []string, rows map[string]string) {
	t.Helper()
	b := newCounting(t, 100*ms)
	b.updateContainers(0)
	all, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	rows = map[string]string{}
	for _, f := range all {
		if !strings.HasPrefix(f.GetName(), "candor_") {
			continue // metrics of the process, from the client library
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		names = append(names, f.GetName())
		rows[f.GetName()] = fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
	}
	return names, rows
}

const tableHead = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"

// TestDocs: the table of the page lists exactly the served metrics.
func TestDocs(t *testing.T) {
	names, rows := families(t)
	var want strings.Builder
	for _, name := range names {
		want.WriteString(rows[name])
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), tableHead)
	_, after, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		t.Fatalf("%s has no table", page)
	}
	golden.Check(t, page, before+tableHead+want.String()+"\n"+after)
}

// panels returns the expressions of all dashboards.
func panels(t *testing.T) (expressions []string) {
	t.Helper()
	files, err := filepath.Glob(boards)
	if err != nil || len(files) != 3 {
		t.Fatalf("got the dashboards %v, %v; want 3", files, err)
	}
	for _, file := range files {
		expressions = append(expressions, panelsOf(t, file)...)
	}
	return expressions
}

// panelsOf returns the expressions of a dashboard.
func panelsOf(t *testing.T, dashboard string) (expressions []string) {
	t.Helper()
	text, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Templating struct {
			List []struct{ Definition string }
		}
		Panels []struct {
			ID      int
			Type    string
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%s: %v", dashboard, err)
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q: duplicate ID or no target", p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	return expressions
}

// alerts returns the expressions of the alert rules, and checks that the page lists each alert and that its runbook exists.
func alerts(t *testing.T) (expressions []string) {
	t.Helper()
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatalf("%s: %v", rules, err)
	}
	docs, err := os.ReadFile(task)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			expressions = append(expressions, rule.Expr)
			if !strings.Contains(string(docs), "| `"+rule.Alert+"` |") {
				t.Errorf("%s does not list the alert %s", task, rule.Alert)
			}
			checkRunbook(t, rule.Alert, rule.Annotations["runbook_url"])
		}
	}
	return expressions
}

// checkRunbook checks that the runbook of an alert is a section of a page of the documentation.
func checkRunbook(t *testing.T, alert, url string) {
	t.Helper()
	const docs = "https://github.com/candor-project/candor/blob/main/"
	file, section, hasSection := strings.Cut(strings.TrimPrefix(url, docs), "#")
	if !strings.HasPrefix(url, docs+"docs/") || !hasSection {
		t.Errorf("alert %s: got runbook %q, want a section of %sdocs", alert, url, docs)
		return
	}
	text, err := os.ReadFile("../" + file)
	if err != nil || !strings.Contains(strings.ToLower(string(text)), "\n## "+section+"\n") {
		t.Errorf("alert %s: %s has no section %s (%v)", alert, file, section, err)
	}
}

var (
	metricName = regexp.MustCompile(`\b[a-z]+(?:_[a-z]+)+\b`)
	notMetrics = regexp.MustCompile(`\{[^}]*\}|\b(?:by|on) \([^)]*\)|\$__[a-z_]+|label_values|histogram_quantile`)
	ofFamily   = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// TestDashboardMetricsExist: the dashboards and the alerts use only metrics that candor nri and candor-scheduler serve.
func TestDashboardMetricsExist(t *testing.T) {
	_, rows := families(t)
	text, err := os.ReadFile(scheduler)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile("(?m)^\\| `(candor_scheduler_[a-z_]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		rows[name[1]] = name[0]
	}
	for file, expressions := range map[string][]string{boards: panels(t), rules: alerts(t)} {
		if len(expressions) < 8 {
			t.Errorf("%s: got %d expressions, want at least 8", file, len(expressions))
		}
		for _, e := range expressions {
			for _, name := range metricName.FindAllString(notMetrics.ReplaceAllString(e, ""), -1) {
				if rows[name] == "" && rows[ofFamily.ReplaceAllString(name, "")] == "" {
					t.Errorf("%s uses %s, which is not served, in\n%s", file, name, e)
				}
			}
		}
	}
}

// promtool runs promtool of Prometheus, and fails the test if it reports an error.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skipf("%v: make test-deps installs it with Debian's prometheus", err)
	}
	cmd := exec.Command("promtool", args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestPromtool: promtool accepts the metrics and all expressions, and the tests of the alert rules pass.
func TestPromtool(t *testing.T) {
	_, body := newBench(t).get("/metrics")
	promtool(t, body, "check", "metrics")
	promtool(t, "", "check", "rules", rules)
	promtool(t, "", "test", "rules", rulesTest)
	// promtool checks the queries of panels in the form of recording rules.
	var recorded strings.Builder
	recorded.WriteString("groups:\n- name: panels\n  rules:\n")
	for i, e := range panels(t) {
		e = strings.ReplaceAll(e, "$__rate_interval", "5m")
		fmt.Fprintf(&recorded, "  - record: panel:%d\n    expr: %q\n", i, e)
	}
	file := filepath.Join(t.TempDir(), "panels.yaml")
	if err := os.WriteFile(file, []byte(recorded.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", file)
}
