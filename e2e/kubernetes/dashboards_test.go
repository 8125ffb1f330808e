package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A prometheus is a Prometheus that scrapes each second.
type prometheus struct{ base string }

const scrapes = `
global: {scrape_interval: 1s, scrape_timeout: 900ms}
scrape_configs:
  - job_name: candor
    static_configs: [{targets: [%q, %q]}]
  - job_name: candor-scheduler
    scheme: https
    tls_config: {insecure_skip_verify: true}
    authorization: {credentials: %s}
    static_configs: [{targets: [%q]}]
`

// startPrometheus starts a Prometheus with a configuration, until the end of the test.
func startPrometheus(t *testing.T, config string) *prometheus {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skipf("%v: make test-deps installs it", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+ports[0], "--log.level=error")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return &prometheus{"http://" + ports[0]}
}

// query returns the number of series of an expression.
func (p *prometheus) query(expr string) (series int, err error) {
	response, err := http.Get(p.base + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []any }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s", answer.Error)
	}
	return len(answer.Data.Result), nil
}

// A dashboardPanel has the fields of a panel that the test uses.
type dashboardPanel struct {
	Title   string
	Targets []struct{ Expr string }
}

// dashboardPanels returns the panels of all dashboards by the name of the dashboard's file.
func dashboardPanels(t *testing.T) (panels map[string][]dashboardPanel) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v: got the dashboards %v, want 3", err, files)
	}
	panels = map[string][]dashboardPanel{}
	for _, file := range files {
		var d struct{ Panels []dashboardPanel }
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &d)
		}
		if err != nil {
			t.Fatal(err)
		}
		panels[filepath.Base(file)] = d.Panels
	}
	return panels
}

// TestDashboards: Prometheus, which scrapes two agents and candor-scheduler, has data for each query of the dashboards.
func TestDashboards(t *testing.T) {
	p := install(t)
	first, second := newMachine(t), newMachine(t)
	for m, name := range map[*machine]string{first: "first", second: "second"} {
		m.startRuntime()
		m.publish(p, name, agentOf(t, p, name))
		m.runProgram("busy", "sh", "-c", "while :; do :; done")
	}
	_, scheduler := startServedScheduler(t, p, adminToken, map[string]any{"leaderElect": false})
	prom := startPrometheus(t, fmt.Sprintf(scrapes, first.metrics, second.metrics, adminToken, scheduler))
	eventually(t, "Prometheus has scraped all targets", func() bool {
		n, err := prom.query("up == 1")
		return err == nil && n == 3
	})
	time.Sleep(12 * time.Second) // a rate needs several scrapes
	replace := strings.NewReplacer("$__rate_interval", "10s", "$instance", first.metrics, "$namespace", ".*", "$pod", ".*")
	count := 0
	for dashboard, panels := range dashboardPanels(t) {
		for _, panel := range panels {
			for _, target := range panel.Targets {
				count++
				if n, err := prom.query(replace.Replace(target.Expr)); err != nil || n == 0 {
					t.Errorf("%s: panel %q has %d series, %v: %s", dashboard, panel.Title, n, err, target.Expr)
				}
			}
		}
	}
	if count < 50 {
		t.Errorf("%d queries, want at least 50", count)
	}
}
