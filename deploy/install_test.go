package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// builtFiles has the files of make that make install copies. The content of a program does not matter here.
var builtFiles = map[string]string{
	"bin/candor":                                      "#!/bin/sh\necho candor\n",
	"bin/share/.built":                                "built\n",
	"bin/share/man/man1/candor.1":                     ".TH candor\n",
	"bin/share/man/man1/candor-run.1":                 ".TH candor-run\n",
	"bin/share/bash-completion/completions/candor":    "bash\n",
	"bin/share/zsh/site-functions/_candor":            "zsh\n",
	"bin/share/fish/vendor_completions.d/candor.fish": "fish\n",
	"bin/tools/gotestsum":                             "not installed\n",
	"deploy/systemd/candor-nri.service":               Unit,
	"Makefile":                                        "",
	"scripts/install.sh":                              "",
}

// checkout writes a source tree after make, in which nothing is writable.
func checkout(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(sharedDir(t), "source")
	for name, text := range builtFiles {
		mode := os.FileMode(0o644)
		if text == "" {
			original, err := os.ReadFile(filepath.Join("..", name))
			if err != nil {
				t.Fatal(err)
			}
			text, mode = string(original), 0o755
		}
		if name == "bin/candor" {
			mode = 0o755
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	setWritable(t, dir, false)
	t.Cleanup(func() { setWritable(t, dir, true) })
	return dir
}

// sharedDir returns a temporary directory that each user can read.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func setWritable(t *testing.T, dir string, isWritable bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() &^ 0o222
		if isWritable {
			mode |= 0o200
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// makeIn runs make in a source tree as a user. If the target tried to build something, it would fail: GO is no program.
func makeIn(t *testing.T, dir string, uid uint32, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("make", append([]string{"--no-print-directory", "-C", dir, "GO=/no/such/go"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME=/nonexistent", "MAKEFLAGS=", "DESTDIR=", "PREFIX=/usr/local")
	if uid != uint32(os.Getuid()) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// otherUser returns a user who does not own the source tree, or the own user if the test does not run as root.
func otherUser() uint32 {
	if os.Getuid() == 0 {
		return 65534
	}
	return uint32(os.Getuid())
}

// tree lists the paths below a directory. Links have their target.
func tree(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, dir)
		if to, err := os.Readlink(path); err == nil {
			name += " -> " + to
		}
		list = append(list, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// destination returns a directory of the other user, with files that are not of Candor.
func destination(t *testing.T) string {
	t.Helper()
	dest := filepath.Join(sharedDir(t), "dest")
	for _, sub := range []string{"usr/local/bin", "usr/local/share/man", "usr/local/share/empty"} {
		if err := os.MkdirAll(filepath.Join(dest, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dest, "usr/local/bin/other"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dest, func(path string, _ os.DirEntry, err error) error {
		if err == nil && os.Getuid() == 0 {
			err = os.Chown(path, int(otherUser()), int(otherUser()))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dest
}

// TestInstall: make install works for another user from a read-only source tree, and builds nothing. After two installations and
// a removal, DESTDIR has the same directories and files as before.
func TestInstall(t *testing.T) {
	source, dest := checkout(t), destination(t)
	before, sourceBefore := tree(t, dest), tree(t, source)
	for range 2 {
		if out, err := makeIn(t, source, otherUser(), "install", "DESTDIR="+dest); err != nil || out != "" {
			t.Fatalf("make install: %v\n%s", err, out)
		}
	}
	installed := tree(t, dest)
	for _, want := range []string{
		"/usr/local/bin/candor", "/usr/local/bin/candor-runc -> candor", "/usr/local/bin/candor-flexible-runc -> candor",
		"/usr/local/lib/systemd/system/candor-nri.service", "/usr/local/share/man/man1/candor-run.1",
		"/usr/local/share/bash-completion/completions/candor", "/usr/local/share/zsh/site-functions/_candor",
		"/usr/local/share/fish/vendor_completions.d/candor.fish",
	} {
		if !slices.Contains(installed, want) {
			t.Errorf("make install lacks %s: %q", want, installed)
		}
	}
	if now := tree(t, source); !slices.Equal(now, sourceBefore) {
		t.Errorf("make install has changed the source tree: %q", now)
	}
	if out, err := makeIn(t, source, otherUser(), "uninstall", "DESTDIR="+dest); err != nil || out != "" {
		t.Fatalf("make uninstall: %v\n%s", err, out)
	}
	if after := tree(t, dest); !slices.Equal(after, before) {
		t.Errorf("make uninstall leaves\n%q, want\n%q", after, before)
	}
}

// TestInstallOver: a new version removes the files of the installed version that it does not have, and removes the unit from a former
// directory. make uninstall then leaves nothing of both versions.
func TestInstallOver(t *testing.T) {
	source, dest := checkout(t), destination(t)
	before := tree(t, dest)
	install := func(args ...string) []string {
		t.Helper()
		if out, err := makeIn(t, source, uint32(os.Getuid()), append(args, "DESTDIR="+dest)...); err != nil || out != "" {
			t.Fatalf("make %q: %v\n%s", args, err, out)
		}
		return tree(t, dest)
	}
	const page, unit, newPage = "/usr/local/share/man/man1/candor-run.1", "/usr/local/lib/systemd/system/candor-nri.service", "/usr/local/share/man/man8/candor-new.8"
	if files := install("install"); !slices.Contains(files, page) || !slices.Contains(files, unit) {
		t.Errorf("the first version: %q", files)
	}
	setWritable(t, source, true)
	if err := os.Remove(filepath.Join(source, "bin/share/man/man1/candor-run.1")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(source, "bin/share/man/man8/candor-new.8"), ".TH new\n", 0o644)
	files := install("install", "UNITDIR=/etc/systemd/system")
	if slices.Contains(files, page) || slices.Contains(files, unit) {
		t.Errorf("files of the first version remain: %q", files)
	}
	for _, want := range []string{newPage, "/etc/systemd/system/candor-nri.service", "/usr/local/bin/candor", "/usr/local/bin/other"} {
		if !slices.Contains(files, want) {
			t.Errorf("the second version lacks %s: %q", want, files)
		}
	}
	if after := install("uninstall"); !slices.Equal(after, before) {
		t.Errorf("make uninstall leaves\n%q, want\n%q", after, before)
	}
}

// TestInstallPrefix: the unit starts the program of the prefix, and the default unit directory follows the prefix.
func TestInstallPrefix(t *testing.T) {
	source, dest := checkout(t), filepath.Join(sharedDir(t), "new", "dest")
	args := []string{"DESTDIR=" + dest, "PREFIX=/opt/candor"}
	if out, err := makeIn(t, source, uint32(os.Getuid()), append([]string{"install"}, args...)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	unit, err := os.ReadFile(filepath.Join(dest, "opt/candor/lib/systemd/system/candor-nri.service"))
	if err != nil || !strings.Contains(string(unit), "\nExecStart=/opt/candor/bin/candor nri ") {
		t.Errorf("%v\n%s", err, unit)
	}
	if out, err := makeIn(t, source, uint32(os.Getuid()), append([]string{"uninstall"}, args...)...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dest, "opt")); err == nil {
		t.Errorf("make uninstall leaves %q", tree(t, dest))
	}
}

// TestInstallRefusals: without a build, without an installation, and with a damaged list, the targets fail with a line of their
// own and change nothing.
func TestInstallRefusals(t *testing.T) {
	uid := uint32(os.Getuid())
	source, dest := checkout(t), destination(t)
	list := filepath.Join(dest, "usr/local/share/candor/files")
	refuse := func(want string, args ...string) {
		t.Helper()
		before := tree(t, dest)
		out, err := makeIn(t, source, uid, append(args, "DESTDIR="+dest)...)
		line, _, _ := strings.Cut(out, "\n")
		if err == nil || !strings.Contains(line, want) {
			t.Errorf("make %q: %v, %q; want %q", args, err, out, want)
		}
		if after := tree(t, dest); !slices.Equal(after, before) {
			t.Errorf("make %q changes %q to %q", args, before, after)
		}
	}
	refuse("make uninstall: no "+list+": set PREFIX and DESTDIR as in make install", "uninstall")
	refuse("must be absolute paths without ..", "install", "PREFIX=usr")
	refuse("must be absolute paths without ..", "install", "PREFIX=/usr/../etc")
	if out, err := makeIn(t, source, uid, "install", "DESTDIR="+dest); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	good, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"file ../../etc/passwd", "file /usr/local/../../etc/passwd", "anything", "file /usr/.."} {
		if err := os.WriteFile(list, append(slices.Clone(good), line+"\n"...), 0o644); err != nil {
			t.Fatal(err)
		}
		refuse("is damaged: must have lines such as file ", "uninstall")
		refuse("is damaged: must have lines such as file ", "install")
	}
	setWritable(t, source, true)
	if err := os.Remove(filepath.Join(source, "bin/candor")); err != nil {
		t.Fatal(err)
	}
	refuse("bin/candor or bin/share is missing: run make first", "install")
}
