package main

import (
	"strings"
	"testing"
)

// TestCompareBadInput: bad input is refused before a program runs, with an error of a single line and exit
// code 2.
func TestCompareBadInput(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--cpu", "1"}, "candor compare: missing COMMAND; must be -- COMMAND"},
		{[]string{"--", "true"}, "missing --cpu; must be 10m to"},
		{[]string{"--cpu", "1", "--setups", "pinned", "--", "true"}, "must be one of none, quota"},
		{[]string{"--cpu", "1", "--setups", "shared-fraction", "--", "true"}, "fraction"},
		{[]string{"--cpu", "1", "--setups", "quota,quota", "--", "true"}, "duplicate quota"},
		{[]string{"--cpu", "1", "-n", "1", "--", "true"}, "must be 2 or more"},
		{[]string{"--cpu", "1", "--metric", "(", "--", "true"}, "bad metric"},
		{[]string{"--cpu", "1", "--timeout", "0s", "--", "true"}, "timeout"},
		{[]string{"--cpu", "1", "--better", "wider", "--", "true"}, "must be one of lower, higher"},
		{[]string{"--cpu", "1", "--metric", "qps=.rate", "--better", "rate=higher", "--", "true"}, "no --metric is called"},
		{[]string{"--cpu", "1", "--metric", `rate=(\d+)`, "--", "true"}, "use rate=rate="},
		{[]string{"--cpu", "1", "--setups", "1xquota", "--", "true"}, "must be 2 to 1000 copies"},
		{[]string{"--cpu", "1", "--setups", "candor+topology=near", "--", "true"}, "must be one of prefer"},
		{[]string{"--cpu", "1", "--server", "sleep 1"}, "must be given together"},
		{[]string{"--cpu", "1", "--server", " ", "--client", "true"}, "no command"},
		{[]string{"--cpu", "1", "--server", "sleep 1", "--client", "true", "--", "true"}, "cannot be combined with -- COMMAND"},
		{[]string{"--cpu", "1", "--server", "sleep 1", "--client", "true", "--setups", "2xquota"}, "a single copy"},
	} {
		code, _, errOut := command(t, "", append([]string{"compare"}, test.args...)...)
		if code != 2 || !strings.Contains(errOut, test.want) || strings.Count(errOut, "\n") != 1 {
			t.Errorf("%v: exit code %d, %q; want 2, one line with %q", test.args, code, errOut, test.want)
		}
	}
	if code, _, errOut := command(t, "", "compare", "--cpu", "1", "--server", "no-such-server 1", "--client", "true"); code != 127 || !strings.Contains(errOut, "not found") {
		t.Errorf("no such server: exit code %d, %q; want 127", code, errOut)
	}
	if code, _, errOut := command(t, "", "compare", "--cpu", "1", "--", "no-such-command"); code != 127 || !strings.Contains(errOut, "not found") {
		t.Errorf("no such command: exit code %d, %q; want 127, as candor run", code, errOut)
	}
}
