package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// example returns the code blocks of a language in the section of docs/metrics.md about TLS.
func example(t *testing.T, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## TLS and passwords\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, found := range regexp.MustCompile("(?s)   ```"+language+"\n(.*?)   ```").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, strings.ReplaceAll(strings.TrimPrefix(found[1], "   "), "\n   ", "\n"))
	}
	if len(blocks) < 2 {
		t.Fatalf("found %d blocks of %s", len(blocks), language)
	}
	return blocks
}

// TestHostileTLS runs the example of docs/metrics.md, and attacks its server.
func TestHostileTLS(t *testing.T) {
	for _, program := range []string{"openssl", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	l := newLab(t)
	shell, yaml := example(t, "sh"), example(t, "yaml")
	sh := func(script string) result {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = l.dir
		return run(t, cmd)
	}
	if got := sh(shell[0]); got.code != 0 {
		t.Fatalf("%s\n%s", shell[0], got.errOut)
	}
	file := filepath.Join(l.dir, "web-config.yml")
	if err := os.WriteFile(file, []byte(yaml[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	g := l.newTarget("--metrics-web-config", file)
	_, port, _ := strings.Cut(g.address, ":")
	_, read, found := strings.Cut(shell[1], "\ncurl ")
	if !found {
		t.Fatalf("no curl in %s", shell[1])
	}
	read = strings.ReplaceAll(strings.TrimSpace(read), ":9464", ":"+port)
	curl := func(args, want string) {
		t.Helper()
		if got := sh("curl --silent --show-error --max-time 10 " + args); !strings.Contains(got.out, want) {
			t.Errorf("curl %s: %s%s; want %q", args, got.out, got.errOut, want)
		}
	}
	check := func() {
		t.Helper()
		curl(read, "candor_connected 0\n")
		curl(strings.Replace(read, ":example", ":guess", 1), "this page needs a user and a password")
		curl("--insecure https://localhost:"+port+"/healthz", "ok\n") // as the kubelet does
		curl("http://localhost:"+port+"/metrics", "Client sent an HTTP request to an HTTPS server")
	}
	check()
	before := g.memory()
	for _, text := range []string{"\x16\x03\x01\x02", "\x16\x03\x01\x40\x01" + strings.Repeat("x", 16384), "GET / HTTP/1.1\r\n\r\n"} {
		g.attack(400, text)
		check()
	}
	if now := g.memory(); now > before+16 {
		t.Errorf("%d MiB, %d before", now, before)
	}
}

// TestHostileWebConfig: a web configuration that cannot be used ends candor nri with one line, before it changes anything.
func TestHostileWebConfig(t *testing.T) {
	l := newLab(t)
	file := filepath.Join(l.dir, "web-config.yml")
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(l.dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	write("web-config.yml", "basic_auth_users: {prometheus: example}\n")
	config := write("nri.yaml", fmt.Sprintf("version: 1\nmetrics: 0\nmetricsWebConfig: %s\n", file))
	alone := write("alone.yaml", fmt.Sprintf("version: 1\nmetricsWebConfig: %s\n", file))
	relative := write("relative.yaml", "version: 1\nmetrics: 0\nmetricsWebConfig: web-config.yml\n")
	for want, args := range map[string][]string{
		`user "prometheus": not a bcrypt hash`:      {"--metrics", "0", "--metrics-web-config", file},
		`user "prometheus": not a bcrypt hash; use`: {"--config", config},
		"add --metrics ADDRESS":                     {"--metrics-web-config", file},
		"add metrics: ADDRESS":                      {"--config", alone},
		"must be an absolute path":                  {"--config", relative},
		"no such file":                              {"--metrics", "0", "--metrics-web-config", file + ".none"},
		"not a plain file":                          {"--metrics", "0", "--metrics-web-config", "/dev/zero"},
	} {
		got := run(t, l.candor(append([]string{"nri", "--socket", filepath.Join(l.dir, "none.sock")}, args...)...))
		if got.code != 2 || !strings.Contains(got.errOut, want) || strings.Count(got.errOut, "\n") != 1 {
			t.Errorf("%q: exit %d, %s; want %q", args, got.code, got.errOut, want)
		}
	}
	if _, err := os.Stat(l.state); err == nil {
		t.Error("the state is written")
	}
}
