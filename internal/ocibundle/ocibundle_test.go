package ocibundle

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	top := t.TempDir()
	dir, other, foreign := top+"/"+id, top+"/"+strings.Repeat("f", 64), top+"/hosts" // other holds the file of dir
	for _, d := range []string{dir, other, foreign} {
		if err := errors.Join(os.Mkdir(d, 0o700), os.WriteFile(d+"/config.v2.json", []byte(`{"Name":"/web","ID":"`+id+`"}`), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		text, name string
		sandbox    bool
	}{
		{`{"annotations":{"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-namespace":"default",
			"io.kubernetes.cri.sandbox-name":"web","io.kubernetes.cri.container-name":"app"}}`, "default/web/app", false},
		{`{"annotations":{"io.kubernetes.cri.container-type":"sandbox"}}`, "", true},
		{`{"annotations":{"io.kubernetes.cri-o.ContainerType":"sandbox"}}`, "", true},
		{`{"annotations":{"io.kubernetes.pod.namespace":"a","io.kubernetes.pod.name":"b","io.kubernetes.container.name":"c"}}`, "a/b/c", false},
		{`{"annotations":{"nerdctl/name":"box"}}`, "box", false},
		{`{"mounts":[{"destination":"/proc","source":"proc"},{"destination":"/etc/hostname","source":"` + dir + `/hostname"}]}`, "web", false},
		{`{"mounts":[{"destination":"/etc/hostname","source":"/nowhere/hostname"}]}`, "", false},
		{`{"mounts":[{"destination":"/etc/hostname","source":"` + other + `/hostname"}]}`, "", false},
		{`{"mounts":[{"destination":"/etc/hostname","source":"` + foreign + `/hostname"}]}`, "", false},
		{`{}`, "", false},
	} {
		c, err := Parse([]byte(test.text))
		if err != nil || c.Name("/") != test.name || c.IsSandbox() != test.sandbox {
			t.Errorf("%s: %q, %v, %v", test.text, c.Name("/"), c.IsSandbox(), err)
		}
	}
	for _, bad := range []string{"", "{", "[]", `{"annotations":1}`, `{"mounts":{}}`} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"annotations":{"nerdctl/name":"box"},"mounts":[{"destination":"/etc/hostname","source":"/x"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text)
		if err == nil && c.IsSandbox() && len(c.Annotations) == 0 {
			t.Errorf("%q: a sandbox without annotations", text)
		}
	})
}

func TestConmonName(t *testing.T) {
	for _, test := range []struct {
		want  string
		words []string
	}{
		{"web", []string{"conmon", "-c", "0123", "-n", "web", "-b", "/run"}},
		{"", []string{"conmon", "-n"}}, {"", []string{"conmon"}}, {"", nil},
	} {
		if got := ConmonName(test.words); got != test.want {
			t.Errorf("%q: got %q, want %q", test.words, got, test.want)
		}
	}
}
