package metrics

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"9464", "127.0.0.1:9464"},
		{":9464", "127.0.0.1:9464"},
		{"0", "127.0.0.1:0"},
		{"0080", "127.0.0.1:80"},
		{"0.0.0.0:9464", "0.0.0.0:9464"},
		{"[::]:9464", "[::]:9464"},
		{"[::1]:1", "[::1]:1"},
		{"", ""}, {":", ""}, {"65536", ""}, {"-1", ""}, {"+80", ""}, {"localhost:9464", ""}, {"1.2.3.4", ""}, {"http://1.2.3.4:80", ""}, {"::1:80", ""},
	} {
		got, err := Address(test.in)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q: %q, %v; want %q", test.in, got, err, test.want)
		}
		if err != nil && !strings.Contains(err.Error(), "must be a port") {
			t.Errorf("%q: %v does not have the accepted values", test.in, err)
		}
	}
}

// FuzzAddress: an accepted address parses to itself again. Without an interface in the text, it is a loopback
// address.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"9464", ":1", "0.0.0.0:80", "[fe80::1%eth0]:80", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Address(s)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: the error has more than a line: %q", s, err)
			}
			return
		}
		at, err := netip.ParseAddrPort(got)
		if err != nil {
			t.Fatalf("%q became %q: %v", s, got, err)
		}
		if again, err := Address(got); err != nil || again != got {
			t.Errorf("%q became %q, which became %q, %v", s, got, again, err)
		}
		if strings.Count(s, ":") < 2 && !strings.Contains(s, ".") && !at.Addr().IsLoopback() {
			t.Errorf("%q became %q, which other machines can reach", s, got)
		}
	})
}
