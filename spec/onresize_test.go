package spec

import "testing"

func TestParseOnResize(t *testing.T) {
	for _, good := range []string{"none", "signal:HUP", "signal:SIGUSR1", "signal:usr2", "exec:echo hi"} {
		if err := CheckOnResize(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "None", "signal", "signal:", "signal:KILL", "signal:SIGSTOP", "signal:1", "signal:FOO", "exec:", "exec: ", "run:x"} {
		if err := CheckOnResize(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
