package oci

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/candor-project/candor/host"
	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube"
)

// imageSettings maps each setting to values that an image may set and values that it must not set. The
// container has a limit of 1.5 CPUs. A setting without an entry fails TestImageSettings.
var imageSettings = map[string]struct{ may, not []string }{
	"burst":     {[]string{"none", "0s"}, []string{"1ms", "kernel", "auto"}},
	"class":     {[]string{"flexible"}, []string{"sensitive"}}, // with the runtime candor-flexible
	"env":       {[]string{"true", "false"}, nil},
	"helpers":   {[]string{"show", "place", "charge"}, nil},
	"movable":   {[]string{"true"}, []string{"false"}},
	"on-resize": {[]string{"none", "signal:HUP"}, nil},
	"period":    {[]string{"100ms", "10ms"}, []string{"101ms", "1s", "9ms", "1ms"}},
	"policy":    {[]string{"strict", "best-effort"}, nil},
	"preserve":  {[]string{"false"}, []string{"true"}},
	"topology":  {[]string{"prefer", "none"}, []string{"whole-cores", "single-numa", "single-l3"}}, // with the runtime candor-flexible
	"view":      {[]string{"affinity"}, []string{"full"}},                                          // with the runtime candor-flexible
}

const withCPUs = `"linux":{"resources":{"cpu":{"quota":150000,"period":100000}}}`

// parseRequest returns the request that a wrapper reads from a configuration.
func parseRequest(t *testing.T, w *Wrapper, text string) (request, error) {
	t.Helper()
	cfg, err := parseConfig([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	a, _, err := w.requestOf(&Call{ID: "abc"}, cfg)
	return a, err
}

// TestImageSettings: an image may set some settings by its environment, and by annotations if the engine
// copies its labels. Other settings need an entry in imageSettings of the host options.
func TestImageSettings(t *testing.T) {
	names := kube.Names()
	config := filepath.Join(t.TempDir(), "host.json")
	plain, allowed := &Wrapper{Class: hybrid.Flexible}, &Wrapper{Class: hybrid.Flexible, Host: host.Options{Config: config}}
	if err := host.SaveOptions(config, host.NodeOptions{ImageSettings: host.SettingNames(strings.Join(names, ","))}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		values, is := imageSettings[name]
		if !is {
			t.Errorf("%s: imageSettings has no entry for this setting", name)
		}
		for _, value := range slices.Concat(values.may, values.not) {
			may := slices.Contains(values.may, value)
			for text, byUser := range map[string]bool{
				`{"process":{"env":["` + variable(name) + `=` + value + `"]},` + withCPUs + `}`:                                            false,
				`{"annotations":{"io.container.manager":"x","candor.dev/` + name + `":"` + value + `"},` + withCPUs + `}`:                  false,
				`{"annotations":{"io.podman.annotations.init":"FALSE","candor.dev/` + name + `":"` + value + `"},` + withCPUs + `}`:        false,
				`{"annotations":{"nerdctl/namespace":"default","candor.dev/` + name + `":"` + value + `"},` + withCPUs + `}`:               false,
				`{"annotations":{"candor.dev/` + name + `":"` + value + `"},` + withCPUs + `}`:                                             true,
				`{"annotations":{"candor.dev/` + name + `":"` + value + `"},"process":{"env":["CANDOR_PRESERVE=false"]},` + withCPUs + `}`: true,
			} {
				_, err := parseRequest(t, plain, text)
				if refused := err != nil && strings.Contains(err.Error(), "an image must not set it") && strings.Contains(err.Error(), "imageSettings"); refused == (may || byUser) {
					t.Errorf("%s: %v; refused: want %t", text, err, !may && !byUser)
				}
				if _, err := parseRequest(t, allowed, text); err != nil {
					t.Errorf("%s, with all imageSettings: %v", text, err)
				}
			}
		}
	}
}

// TestUserOverridesImage: a setting from the user of the engine overrides the setting of the image, which is then
// allowed.
func TestUserOverridesImage(t *testing.T) {
	for _, test := range []struct{ annotations, environ, resources, want string }{
		{`"candor.dev/burst":"none"`, `"CANDOR_BURST=20ms"`, ``, ""},
		{`"candor.dev/view":"affinity"`, `"CANDOR_VIEW=full"`, ``, ""},
		{`"candor.dev/period":"50ms"`, `"CANDOR_PERIOD=1s"`, ``, ""},
		{``, `"CANDOR_PERIOD=10ms"`, `"period":50000,`, "environment CANDOR_PERIOD: an image must not set it"},
		{``, `"CANDOR_PERIOD=50ms"`, `"period":50000,`, ""},
		{``, `"CANDOR_BURST=20ms"`, `"burst":10000,`, "environment CANDOR_BURST: an image must not set it"},
		{`"io.container.manager":"libpod","candor.dev/movable":"true"`, `"CANDOR_MOVABLE=false"`, ``, ""},
	} {
		text := `{"annotations":{` + test.annotations + `},"process":{"env":[` + test.environ + `]},"linux":{"resources":{"cpu":{` + test.resources + `"quota":50000}}}}`
		_, err := parseRequest(t, &Wrapper{Class: hybrid.Flexible}, text)
		if test.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", text, err, test.want)
		}
	}
	if _, err := parseRequest(t, &Wrapper{Class: hybrid.Sensitive}, `{"process":{"env":["CANDOR_VIEW=full","CANDOR_CLASS=sensitive"]},`+withCPUs+`}`); err != nil {
		t.Errorf("the defaults of a sensitive container: %v", err)
	}
	for value, refused := range map[string]bool{"single-numa": false, "single-l3": false, "whole-cores": true} {
		text := `{"process":{"env":["CANDOR_TOPOLOGY=` + value + `"]},` + withCPUs + `}`
		if _, err := parseRequest(t, &Wrapper{Class: hybrid.Sensitive}, text); (err != nil) != refused {
			t.Errorf("topology %s of a sensitive container: %v", value, err)
		}
	}
	for class, want := range map[hybrid.Class]bool{hybrid.Sensitive: true, hybrid.Flexible: true} { // without a limit, both classes become flexible
		if _, err := parseRequest(t, &Wrapper{Class: class}, `{"process":{"env":["CANDOR_VIEW=full"]}}`); err != nil != want {
			t.Errorf("class %v, without a limit: %v", class, err)
		}
	}
}

// TestUnknownImageSetting: an unknown or invalid name in imageSettings of the host options is an error for a
// container with an image setting.
func TestUnknownImageSetting(t *testing.T) {
	config := filepath.Join(t.TempDir(), "host.json")
	w := &Wrapper{Host: host.Options{Config: config}}
	const text = `{"process":{"env":["CANDOR_MOVABLE=false"]}}`
	for options, want := range map[string]string{
		`{"imageSettings":["movable"]}`:          "",
		`{"imageSettings":["moveable"]}`:         `imageSettings: unknown setting "moveable"; use some of burst, class`,
		`{"imageSettings":["burst","preserve"]}`: "environment CANDOR_MOVABLE: an image must not set it; use the annotation candor.dev/movable, remove the variable, or add movable to imageSettings in " + config,
		`{"imageSettings":"movable"}`:            "host options " + config,
		`{"imageSettings":["a,b"]}`:              "host options " + config,
	} {
		if err := os.WriteFile(config, []byte(options), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := parseRequest(t, w, text)
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
		if strings.Contains(want, "options") != errors.Is(err, host.ErrBadOptions) && !strings.Contains(want, "unknown") {
			t.Errorf("%s: %v", options, err)
		}
	}
}
