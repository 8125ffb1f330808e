package deploy

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/candor-project/candor/kube"
	"github.com/candor-project/candor/kube/v1alpha1"
)

// A restriction describes a value of the chart that allows a setting only in some namespaces.
type restriction struct {
	value    string   // name of the chart's value
	policy   string   // name of the admission policy, without the release
	harmless []string // values of the setting that are allowed everywhere
}

// restrictions holds the settings that affect other containers.
var restrictions = map[string]restriction{
	"class":    {"sensitiveOnlyIn", "sensitive", []string{"flexible"}},
	"preserve": {"preserveOnlyIn", "preserve", []string{"false"}},
	"view":     {"fullViewOnlyIn", "view", []string{"affinity"}},
	"topology": {"topologyOnlyIn", "topology", []string{"prefer", "none"}},
	"burst":    {"burstOnlyIn", "burst", []string{"none"}},
	"period":   {"periodOnlyIn", "period", []string{"100ms"}},
}

// unrestricted holds the remaining settings, with the reason why the chart does not restrict them.
var unrestricted = map[string]string{
	"policy":    "changes sensitive containers only: sensitiveOnlyIn restricts it",
	"movable":   "changes sensitive containers only: sensitiveOnlyIn restricts it",
	"on-resize": "signals a process of the container itself",
	"env":       "changes the environment of the container itself",
	"helpers":   "a higher level restricts the container itself; no container can choose a lower level than its node",
}

// TestRestrictions: each setting is either restricted by a value of the chart or harmless for other
// containers.
func TestRestrictions(t *testing.T) {
	for _, setting := range kube.Names() {
		r, restricted := restrictions[setting]
		if restricted == (unrestricted[setting] != "") {
			t.Errorf("setting %s: want it either in restrictions (it affects other containers) or in unrestricted", setting)
		}
		if restricted {
			checkRestriction(t, setting, r)
		}
	}
}

// checkRestriction checks the policies and bindings that the chart renders for a single restriction.
func checkRestriction(t *testing.T, setting string, r restriction) {
	t.Helper()
	for _, value := range r.harmless {
		if err := new(kube.Settings).Set(setting, value); err != nil {
			t.Errorf("harmless value: %v", err)
		}
	}
	policies := map[string]string{ // policy name to a part of its expression
		r.policy:                 "startsWith('" + setting + ".candor.dev/')",
		r.policy + "-namespaces": "'candor.dev/" + setting + "'",
	}
	if profileHas(setting) {
		policies[r.policy+"-profiles"] = "object.?spec." + setting + "."
	}
	all := documents(t, render(t, r.value+": [spark]"))
	for name, want := range policies {
		policy, binding := all["ValidatingAdmissionPolicy candor-"+name], all["ValidatingAdmissionPolicyBinding candor-"+name]
		if policy == nil || binding == nil {
			t.Errorf("%s: policy candor-%s or its binding is missing", r.value, name)
			continue
		}
		rules := policy["spec"].(document)["validations"].([]any)
		rule := rules[len(rules)-1].(document)["expression"].(string)
		harmless := "'" + strings.Join(r.harmless, "', '") + "']"
		if !strings.Contains(rule, want) || !strings.Contains(rule, harmless) {
			t.Errorf("candor-%s: want %s and %s in\n%s", name, want, harmless, rule)
		}
		if text := fmt.Sprint(binding["spec"]); !strings.Contains(text, "[Deny]") || !strings.Contains(text, "NotIn values:[spark]") {
			t.Errorf("candor-%s does not deny outside of spark: %s", name, text)
		}
	}
	count := 0
	for key := range all {
		if strings.HasPrefix(key, "ValidatingAdmissionPolicy ") {
			count++
		}
	}
	if count != len(policies) {
		t.Errorf("%s: %d policies, want %d", r.value, count, len(policies))
	}
}

// profileHas reports whether CPUProfiles have a setting.
func profileHas(setting string) bool {
	spec := reflect.TypeFor[v1alpha1.CPUProfileSpec]()
	for field := range spec.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == setting {
			return true
		}
	}
	return false
}
