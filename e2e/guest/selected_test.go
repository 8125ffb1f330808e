package guest_test

import (
	"flag"
	"regexp"
	"strings"
	"testing"
)

// selected returns the part of -test.run for the names below t, as in -run
// 'TestGuest/v2/6.12.*/host/TestStartIn': a guest then runs only these packages and tests. An empty result
// selects everything; a pattern with alternatives gives an empty result.
func selected(t *testing.T) string {
	return below(flag.Lookup("test.run").Value.String(), t.Name())
}

func below(pattern, name string) string {
	if strings.ContainsAny(pattern, "|(") {
		return ""
	}
	elements := strings.Split(pattern, "/")
	depth := strings.Count(name, "/") + 1
	return strings.Join(elements[min(depth, len(elements)):], "/")
}

// matches reports whether a name matches the first element of a pattern from selected, and returns the other elements.
func matches(pattern, name string) (rest string, ok bool) {
	first, rest, _ := strings.Cut(pattern, "/")
	ok, err := regexp.MatchString(first, name)
	return rest, ok && err == nil
}

func TestSelected(t *testing.T) {
	for _, c := range []struct{ pattern, name, want string }{
		{"", "TestGuest/v2/6.12", ""},
		{"TestGuest", "TestGuest/v2/6.12", ""},
		{"^TestGuest$/^v2$", "TestGuest/v2/6.12", ""},
		{`^TestGuest$/^v2$/^6\.12\+deb$/^host$`, "TestGuest/v2/6.12+deb", "^host$"},
		{`^TestGuest$/^v2$/^6\.12\+deb$/^host$/^TestStartIn$/^x$`, "TestGuest/v2/6.12+deb", "^host$/^TestStartIn$/^x$"},
		{"TestGuest/v2|TestContainerd/x", "TestContainerd", ""},
		{"TestContainerd/TestNUMA", "TestContainerd", "TestNUMA"},
	} {
		if got := below(c.pattern, c.name); got != c.want {
			t.Errorf("-run %q below %s: got %q, want %q", c.pattern, c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		pattern, name, rest string
		ok                  bool
	}{
		{"", "host", "", true},
		{"^host$", "host", "", true},
		{"^host$", "hostile", "", false},
		{"host/TestA/b", "hostile", "TestA/b", true},
	} {
		if rest, ok := matches(c.pattern, c.name); rest != c.rest || ok != c.ok {
			t.Errorf("%q matches %s: got %q, %t", c.pattern, c.name, rest, ok)
		}
	}
}
