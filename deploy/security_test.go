package deploy

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const (
	settingsPage = "../docs/security.md"         // lists the settings that affect other containers
	rightsPage   = "../docs/reference/rights.md" // lists the rights of each part
)

// A page is a docs page that must list certain entries.
type page struct {
	t          *testing.T
	file, text string
}

func readPage(t *testing.T, file string) page {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return page{t, file, string(text)}
}

// need fails the test if the page does not list an entry. part names the source of the entry in the message.
func (p page) need(entry, part string) {
	p.t.Helper()
	if !strings.Contains(p.text, entry) {
		p.t.Errorf("%s does not list %s of %s", p.file, entry, part)
	}
}

// TestRightsPage: rights.md lists each directive of the unit, each mount and capability of the DaemonSet, and
// each RBAC rule of the chart.
func TestRightsPage(t *testing.T) {
	p := readPage(t, rightsPage)
	for _, line := range rights(Unit) {
		if key, _, _ := strings.Cut(line, "="); !strings.Contains(p.text, "`"+key+"=`") { // the page omits long values
			p.need("`"+line+"`", "the unit")
		}
	}
	all := documents(t, render(t, renderings["publish"]))
	for _, mount := range volumes(all) {
		p.need("`"+mount+"`", "the DaemonSet")
	}
	p.need("`"+capabilities(all)+"`", "the DaemonSet")
	for _, rule := range slices.Concat(rules(t, all), rules(t, documents(t, render(t, renderings["web"])))) {
		p.need(rule, "the roles")
	}
	p.need(fmt.Sprintf("rates the exposure at %v", maxExposure), "the unit")
}

// TestSettingsPage: security.md lists each value of the chart that restricts a setting, and each setting that
// is not restricted.
func TestSettingsPage(t *testing.T) {
	p := readPage(t, settingsPage)
	for setting, r := range restrictions {
		p.need("`"+r.value+"`", "setting "+setting)
	}
	for setting := range unrestricted {
		p.need("`"+setting+"`", "the settings that are not restricted")
	}
}

// rights returns the directives of the unit's [Service] section that grant or remove rights.
func rights(unit string) (lines []string) {
	other := map[string]bool{"Type": true, "ExecStart": true, "ExecReload": true, "RestartSec": true, "TimeoutStartSec": true, "Slice": true}
	_, service, _ := strings.Cut(unit, "\n[Service]\n")
	service, _, _ = strings.Cut(service, "\n[Install]\n")
	for line := range strings.Lines(service) {
		key, _, isDirective := strings.Cut(line, "=")
		if isDirective && !strings.HasPrefix(line, "#") && !other[key] {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// volumes returns the directories of the node that the DaemonSet mounts.
func volumes(all map[string]document) (paths []string) {
	pod := all["DaemonSet"]["spec"].(document)["template"].(document)["spec"].(document)
	for _, v := range pod["volumes"].([]any) {
		if of, ok := v.(document)["hostPath"].(document); ok {
			paths = append(paths, of["path"].(string))
		}
	}
	return paths
}

// capabilities returns the capabilities of the DaemonSet's container in the notation of the page.
func capabilities(all map[string]document) string {
	pod := all["DaemonSet"]["spec"].(document)["template"].(document)["spec"].(document)
	context := pod["containers"].([]any)[0].(document)["securityContext"].(document)
	list := context["capabilities"].(document)
	words := func(list any) string { return strings.ReplaceAll(fmt.Sprint(list), " ", ", ") }
	return fmt.Sprintf("capabilities: {drop: %s, add: %s}", words(list["drop"]), words(list["add"]))
}

// rules returns the RBAC rules and the bound roles of the chart in the notation of the page: `resources`:
// verbs.
func rules(t *testing.T, all map[string]document) (texts []string) {
	t.Helper()
	bound := func(list any, around string) string {
		var words []string
		for _, word := range list.([]any) {
			words = append(words, around+word.(string)+around)
		}
		return strings.Join(words, ", ")
	}
	for key, d := range all {
		kind, _, _ := strings.Cut(key, " ")
		switch kind {
		case "ClusterRole", "Role":
			for _, r := range d["rules"].([]any) {
				rule := r.(document)
				resources := bound(rule["resources"], "`")
				if rule["resourceNames"] != nil {
					resources += " named `RELEASE-scheduler` in its namespace"
				}
				texts = append(texts, resources+": "+bound(rule["verbs"], ""))
			}
		case "ClusterRoleBinding", "RoleBinding":
			if name := d["roleRef"].(document)["name"].(string); !strings.HasPrefix(name, "candor") {
				texts = append(texts, "role `"+name+"`")
			}
		}
	}
	if len(texts) < 8 {
		t.Errorf("found %d rules and roles, want at least 8: the test may read the chart incorrectly", len(texts))
	}
	return texts
}
