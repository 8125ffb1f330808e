package deploy

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// securityPage names the rights of each part.
const securityPage = "../docs/security.md"

// TestSecurityPage checks that the page has each directive of the unit, each right of the chart's pods, each rule in the API server and
// each restriction.
func TestSecurityPage(t *testing.T) {
	text, err := os.ReadFile(securityPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	need := func(right, part string) {
		if !strings.Contains(page, right) {
			t.Errorf("%s does not have %s of %s", securityPage, right, part)
		}
	}
	for _, line := range rights(Unit) {
		if key, _, _ := strings.Cut(line, "="); !strings.Contains(page, "`"+key+"=`") { // some values are too long for the page
			need("`"+line+"`", "the unit")
		}
	}
	all := documents(t, render(t, renderings["publish"]))
	for _, mount := range volumes(all) {
		need("`"+mount+"`", "the DaemonSet")
	}
	need("`"+capabilities(all)+"`", "the DaemonSet")
	for _, rule := range rules(t, all) {
		need(rule, "the roles")
	}
	for setting, r := range restrictions {
		need("`"+r.value+"`", "setting "+setting)
	}
	for setting := range unrestricted {
		need("`"+setting+"`", "the settings that are not restricted")
	}
	need(fmt.Sprintf("rates the exposure at %v", maxExposure), "the unit")
}

// rights returns the unit's directives that give or take rights.
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

// volumes returns the node's folders that the DaemonSet mounts.
func volumes(all map[string]document) (paths []string) {
	pod := all["DaemonSet"]["spec"].(document)["template"].(document)["spec"].(document)
	for _, v := range pod["volumes"].([]any) {
		if of, ok := v.(document)["hostPath"].(document); ok {
			paths = append(paths, of["path"].(string))
		}
	}
	return paths
}

// capabilities returns the line of the DaemonSet's container as the page writes it.
func capabilities(all map[string]document) string {
	pod := all["DaemonSet"]["spec"].(document)["template"].(document)["spec"].(document)
	context := pod["containers"].([]any)[0].(document)["securityContext"].(document)
	list := context["capabilities"].(document)
	words := func(list any) string { return strings.ReplaceAll(fmt.Sprint(list), " ", ", ") }
	return fmt.Sprintf("capabilities: {drop: %s, add: %s}", words(list["drop"]), words(list["add"]))
}

// rules returns the chart's rules as the page writes them: `resources`: verbs.
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
		t.Errorf("the chart has %d rules and roles: are they read in the right way?", len(texts))
	}
	return texts
}
