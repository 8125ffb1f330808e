package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/candor-project/candor/host"
)

// TestDockerCgroupParentOfCandor: candor-runc refuses a container whose group would be among Candor's groups, with one
// line, and leaves nothing behind. It accepts a group beside Candor's.
func TestDockerCgroupParentOfCandor(t *testing.T) {
	d := newDocker(t)
	for _, parent := range []string{d.parent, d.parent + "/x", "//" + d.parent[1:] + "/./x/", "/x/.." + d.parent} {
		for _, flags := range []string{"--runtime=candor --cpus=0.5", "--runtime=candor-flexible", "--runtime=candor --cpuset-cpus=0", "--runtime=candor --annotation=candor.dev/preserve=true"} {
			args := append([]string{"run", "--rm", "--network=none", "--cgroup-parent=" + parent}, strings.Fields(flags)...)
			got := do(t, d.docker(append(args, "box", "nproc")...))
			if strings.Contains(got.err, "requires API version") {
				continue // an engine before 24
			}
			if got.code != 125 || !strings.Contains(got.err, "in "+d.parent+": groups there are Candor's own; choose another parent group") || got.out != "" {
				t.Errorf("--cgroup-parent=%s %s: %+v; want it refused", parent, flags, got)
			}
		}
	}
	d.nudge()
	d.empty()
	if got := d.does("run", "--rm", "--network=none", "--runtime=candor", "--cpus=0.5", "--cgroup-parent="+d.parent+"-batch", "box", "nproc"); got != "1" {
		t.Errorf("in a group beside Candor's: %s", got)
	}
}

// TestDockerImageEnvironment: the environment of an image cannot choose settings that need the user's
// permission, unless the machine's options allow them. The arguments of a container, which can hold secrets,
// are in no file that other users can read.
func TestDockerImageEnvironment(t *testing.T) {
	d := newDocker(t)
	for name, change := range map[string]string{"preserve": "ENV CANDOR_PRESERVE=true", "burst": "ENV CANDOR_BURST=20ms", "view": "ENV CANDOR_VIEW=full CANDOR_CLASS=flexible", "policy": "ENV CANDOR_POLICY=best-effort CANDOR_ENV=true"} {
		d.does("import", "--change", change, d.in("box.tar"), name)
	}
	run := []string{"run", "--rm", "--network=none", "--runtime=candor", "--cpus=0.5"}
	for _, image := range []string{"preserve", "burst", "view"} {
		got := do(t, d.docker(append(run, image, "nproc")...))
		if got.code != 125 || !strings.Contains(got.err, "environment CANDOR_"+strings.ToUpper(image)+": an image must not set it") {
			t.Errorf("image %s: %+v; want it refused", image, got)
		}
	}
	for _, args := range [][]string{{"-e", "CANDOR_PRESERVE=false", "preserve"}, {"-e", "CANDOR_BURST=none", "burst"}, {"policy"}} {
		if got := d.does(append(append(run, args...), "nproc")...); got != "1" {
			t.Errorf("%v: it counts %s", args, got)
		}
	}
	d.allowImages("burst", "view")
	if got := do(t, d.docker(append(run, "preserve", "nproc")...)); got.code != 125 {
		t.Errorf("image preserve, with burst and view allowed: %+v", got)
	}
	d.does(append(run, "view", "nproc")...)
	const secret = "hunter2"
	id := d.does("run", "-d", "--network=none", "--runtime=candor", "--cpus=0.5", "burst", "sh", "-c", "sleep 9999; : "+secret)[:12]
	if has, err := d.tree.Group(id).Settings(); err != nil || has.Burst.Milliseconds() != 20 {
		t.Errorf("image burst, with burst allowed: %+v, %v", has, err)
	}
	if got := d.ok("ps"); !strings.Contains(got, "sh -c sleep 9999; : "+secret) {
		t.Errorf("root does not see the command line:\n%s", got)
	}
	d.hidden(secret)
	d.does("rm", "-f", id)
	d.empty()
}

// allowImages adds settings to the machine's options that an image can choose.
func (l *lab) allowImages(names ...string) {
	l.Helper()
	for _, entry := range l.candor().Env {
		if file, is := strings.CutPrefix(entry, "CANDOR_CONFIG="); is {
			if err := host.SaveOptions(file, host.NodeOptions{ImageSettings: host.SettingNames(strings.Join(names, ","))}); err != nil {
				l.Fatal(err)
			}
		}
	}
}

// hidden fails the test if a file of the state that every user can read contains a text.
func (l *lab) hidden(text string) {
	l.Helper()
	files := 0
	err := filepath.WalkDir(l.state, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if entry.IsDir() && info.Mode()&0o005 == 0 {
			return fs.SkipDir
		}
		if files++; info.Mode()&0o004 != 0 {
			if data, _ := os.ReadFile(path); strings.Contains(string(data), text) {
				l.Errorf("%s holds %q, and every user can read it", path, text)
			}
		}
		return nil
	})
	if err != nil || files < 3 {
		l.Errorf("%d files in %s: %v", files, l.state, err)
	}
}
