package deploy

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/candor-project/candor/e2e/guest"
	"github.com/candor-project/candor/engine/nri"
	"github.com/candor-project/candor/internal/golden"
)

const chart = "helm/candor"

// renderings maps names to values that override the default values of the chart.
var renderings = map[string]string{
	"default": "{}",
	"all": `
image: {repository: registry.example/candor, tag: v2}
imagePullSecrets: [{name: registry}]
config:
  version: 1
  repairEvery: 30s
  node: {reserved: "0-1", minShared: 500m}
  namespaces: {spark: {class: sensitive}, kube-system: {preserve: "true"}}
stateDir: /run/other
nriSocket: /run/nri/nri.sock
metrics: {port: 9000, recordHistogram: 100ms, webConfig: {secret: candor-metrics, scheme: HTTPS}, serviceMonitor: {enabled: true, labels: {release: prometheus}, endpoint: {tlsConfig: {insecureSkipVerify: true}}}}
tolerations: []
nodeSelector: {pool: batch}
`,
	"observe":  "observe: true",
	"giveback": "giveBack: true",
	"ledger":   "ledger: {enabled: true}",
	"charge":   "ledger: {enabled: true, charge: true}",
	"web":      "publish: true\nweb: {enabled: true}",
	"webtls": `
publish: true
imagePullSecrets: [{name: registry}]
web: {enabled: true, cluster: production, prometheus: "http://prometheus.monitoring:9090", tlsSecret: candor-web, image: {tag: v2}}
`,
	"publish": `
publish: true
schedulers: [system:kube-scheduler]
scheduler: {enabled: true, args: {reservationTimeout: 5m}}
sensitiveOnlyIn: [spark, solver]
preserveOnlyIn: [kube-system, spark]
fullViewOnlyIn: [spark]
topologyOnlyIn: [spark]
burstOnlyIn: [spark]
periodOnlyIn: [spark]
`,
}

// A document is a YAML document or a mapping in it.
type document = map[string]any

// TestChart: the chart renders to the manifests in helm/testdata. The tests in e2e/containerd run these
// manifests.
func TestChart(t *testing.T) {
	for name, values := range renderings {
		golden.Check(t, "helm/testdata/"+name+".yaml", render(t, values))
	}
}

// render renders the chart like helm template, with only the template functions that the chart uses. TestHelm
// compares the result with helm.
func render(t *testing.T, more string) string {
	t.Helper()
	values := read[document](t, filepath.Join(chart, "values.yaml"))
	over(values, parse[document](t, []byte(more)))
	meta := read[document](t, filepath.Join(chart, "Chart.yaml"))
	data := document{
		"Values":  values,
		"Chart":   document{"Name": meta["name"], "Version": meta["version"], "AppVersion": meta["appVersion"], "Annotations": meta["annotations"]},
		"Release": document{"Name": "candor", "Namespace": "candor-system", "Service": "Helm"},
		"Files":   chartFiles{t},
	}
	all := template.New("").Option("missingkey=error")
	all.Funcs(functions(all))
	if _, err := all.ParseGlob(filepath.Join(chart, "templates/*")); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, name := range []string{"serviceaccount.yaml", "configmap.yaml", "servicemonitor.yaml", "monitoring.yaml", "ledger.yaml", "daemonset.yaml", "publish.yaml", "restrictions.yaml", "scheduler-rights.yaml", "scheduler.yaml", "user-roles.yaml", "web.yaml"} {
		var text bytes.Buffer
		if err := all.ExecuteTemplate(&text, name, data); err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(text.String()) != "" {
			fmt.Fprintf(&out, "---\n# Source: candor/templates/%s\n%s\n", name, strings.TrimSpace(text.String()))
		}
	}
	return out.String()
}

// chartFiles has the method of helm's .Files that the chart uses.
type chartFiles struct{ t *testing.T }

// Get returns the content of a file of the chart.
func (f chartFiles) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(chart, name))
	if err != nil {
		f.t.Error(err)
	}
	return string(text)
}

// functions returns the template functions of helm that the chart uses.
func functions(all *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var out strings.Builder
			err := all.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"toYaml": func(v any) (string, error) {
			var out strings.Builder
			e := yaml.NewEncoder(&out)
			e.SetIndent(2)
			err := e.Encode(v)
			return strings.TrimSuffix(out.String(), "\n"), err
		},
		"nindent": func(n int, s string) string {
			return "\n" + strings.Repeat(" ", n) + strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", n))
		},
		"default": func(otherwise, s string) string {
			if s == "" {
				return otherwise
			}
			return s
		},
		"dict": func(pairs ...any) map[string]any {
			d := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				d[pairs[i].(string)] = pairs[i+1]
			}
			return d
		},
		"list":      func(all ...any) []any { return all },
		"quote":     strconv.Quote,
		"sha256sum": func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) },
		"dir":       path.Dir,
	}
}

// over merges more into values, as helm does.
func over(values, more document) {
	for key, v := range more {
		below, isMap := values[key].(document)
		if with, ok := v.(document); ok && isMap {
			over(below, with)
			continue
		}
		values[key] = v
	}
}

func read[T any](t *testing.T, file string) T {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parse[T](t, text)
}

func parse[T any](t *testing.T, text []byte) (v T) {
	t.Helper()
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}

// documents returns the objects of a rendered chart. The key is the kind, with the name unless the name is
// candor.
func documents(t *testing.T, text string) map[string]document {
	t.Helper()
	all := map[string]document{}
	for part := range strings.SplitSeq(text, "\n---\n") {
		d := parse[document](t, []byte(part+"\n")) // a block scalar ends with a line break
		if d == nil {
			continue
		}
		key := d["kind"].(string)
		if name := d["metadata"].(document)["name"].(string); name != "candor" {
			key += " " + name
		}
		all[key] = d
	}
	return all
}

// TestChartsConfig: the ConfigMap contains a valid configuration of candor nri.
func TestChartsConfig(t *testing.T) {
	for name, values := range renderings {
		config := documents(t, render(t, values))["ConfigMap"]["data"].(document)["nri.yaml"].(string)
		file := filepath.Join(t.TempDir(), "nri.yaml")
		if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := nri.LoadConfig(file); err != nil {
			t.Errorf("%s: %v in\n%s", name, err, config)
		}
	}
}

// monitoring enables the objects for Prometheus and Grafana that TestMonitoring compares with files.
const monitoring = "metrics: {prometheusRule: {enabled: true, labels: {release: prometheus}}, dashboards: {enabled: true}}"

// TestMonitoring: the chart creates no alerts and no dashboards by default. If they are enabled, they are those for users without
// the chart.
func TestMonitoring(t *testing.T) {
	if out := render(t, "{}"); strings.Contains(out, "PrometheusRule") || strings.Contains(out, "dashboard") {
		t.Errorf("by default, the chart creates alerts or dashboards:\n%s", out)
	}
	all := documents(t, render(t, monitoring))
	rules := read[document](t, "prometheus/candor.rules.yaml")
	rule := all["PrometheusRule"]
	if !reflect.DeepEqual(rule["spec"], rules) {
		t.Errorf("got rules %v, want those of prometheus/candor.rules.yaml", rule["spec"])
	}
	if labels := rule["metadata"].(document)["labels"].(document); labels["release"] != "prometheus" || labels["app.kubernetes.io/name"] != "candor" {
		t.Errorf("got labels %v", labels)
	}
	for _, name := range []string{"cluster", "node", "namespace"} {
		dashboard := all["ConfigMap candor-dashboard-"+name]
		want, err := os.ReadFile("grafana/candor-" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if got := dashboard["data"].(document)["candor-"+name+".json"]; got != string(want) {
			t.Errorf("dashboard %s: got\n%v\nwant grafana/candor-%s.json", name, got, name)
		}
		if labels := dashboard["metadata"].(document)["labels"].(document); labels["grafana_dashboard"] != "1" {
			t.Errorf("dashboard %s: got labels %v", name, labels)
		}
	}
	text, err := os.ReadFile("prometheus/candor.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, filepath.Join(chart, "files/candor.rules.yaml"), string(text))
}

// TestOlderReleaseValues: helm upgrade --reuse-values uses the values of an older release, which can lack new
// values. The chart must still render valid arguments.
func TestOlderReleaseValues(t *testing.T) {
	if out := render(t, "metrics: {recordHistogram: null, webConfig: null, prometheusRule: null, dashboards: null, serviceMonitor: {endpoint: null}}\nweb: null"); strings.Contains(out, "--record-histogram") || strings.Contains(out, "--metrics-web-config") {
		t.Errorf("values of an older release: got arguments without a value\n%s", out)
	}
}

// TestSchema: the schema of the chart has all values of values.yaml, and helm refuses other values.
func TestSchema(t *testing.T) {
	var compare func(path string, values, schema document)
	compare = func(path string, values, schema document) {
		known, ok := schema["properties"].(document)
		if !ok {
			return // any keys are allowed
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s: the schema accepts unknown values", path)
		}
		for key, v := range values {
			below, ok := known[key].(document)
			if !ok {
				t.Errorf("%s.%s is not in the schema", path, key)
			} else if v, isMap := v.(document); isMap {
				compare(path+"."+key, v, below)
			}
		}
	}
	compare("", read[document](t, filepath.Join(chart, "values.yaml")), read[document](t, filepath.Join(chart, "values.schema.json")))
}

// TestPermissionReasons: a comment above each permission in the DaemonSet gives its reason.
func TestPermissionReasons(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chart, "templates/daemonset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	lines, found := strings.Split(string(text), "\n"), 0
	for i, line := range lines {
		switch word, _, _ := strings.Cut(strings.TrimSpace(line), ":"); word {
		case "hostPath":
			i-- // the volume's name is above
		case "hostPID", "hostNetwork", "hostIPC", "add", "runAsUser":
		default:
			continue
		}
		if found++; !strings.HasPrefix(strings.TrimSpace(lines[i-1]), "# ") {
			t.Errorf("line %d, %s: no comment with a reason above", i+1, strings.TrimSpace(line))
		}
	}
	if found < 7 {
		t.Errorf("found %d permissions, want at least 7: the test may read the template incorrectly", found)
	}
}

// findHelm returns the helm program from the PATH, or from the cache of scripts/test-deps.sh. It skips the
// test if there is none.
func findHelm(t *testing.T) string {
	if program, err := exec.LookPath("helm"); err == nil {
		return program
	}
	cache, err := guest.Cache()
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath(filepath.Join(cache, "helm", "helm"))
	if err != nil {
		t.Skipf("%v: cannot run helm lint and helm template", err)
	}
	return program
}

// TestHelm: helm accepts the chart and renders the same objects as render. It refuses unknown and conflicting
// values.
func TestHelm(t *testing.T) {
	program := findHelm(t)
	helm := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(program, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if out, err := exec.Command(program, "template", "candor", chart, "--set", "metrics.prot=9000").CombinedOutput(); err == nil || !strings.Contains(string(out), "prot") {
		t.Errorf("unknown value metrics.prot: got %v, want an error\n%s", err, out)
	}
	for _, invalid := range []string{"config.metrics=9464", "config.stateDir=/run/other", "config.publish=true", "config.recordHistogram=1s", "config.metricsWebConfig=/x", "metrics.webConfig.scheme=https", "metrics.recordHistogram=2s", "observe=true,publish=true", "observe=true,giveBack=true", "scheduler.enabled=true", "web.enabled=true", "web.prometheus=prometheus:9090"} {
		if out, err := exec.Command(program, "template", "candor", chart, "--set", invalid).CombinedOutput(); err == nil {
			t.Errorf("%s: helm accepts a value without effect:\n%s", invalid, out)
		}
	}
	inputs := maps.Clone(renderings)
	inputs["monitoring"] = monitoring
	for name, values := range inputs {
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, []byte(values), 0o644); err != nil {
			t.Fatal(err)
		}
		helm("lint", "--strict", chart, "--values", file)
		got := documents(t, helm("template", "candor", chart, "--namespace", "candor-system", "--kube-version", "1.30.0", "--values", file))
		want := documents(t, render(t, values))
		for _, all := range []map[string]document{got, want} { // the checksums differ because the YAML encoders differ
			for _, key := range []string{"DaemonSet", "Deployment candor-scheduler"} {
				if d := all[key]; d != nil {
					delete(d["spec"].(document)["template"].(document)["metadata"].(document)["annotations"].(document), "checksum/config")
				}
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: helm renders\n%v\nwant\n%v", name, got, want)
		}
	}
}
