package deploy

import (
	"archive/tar"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	testVersion = "v0.0.1-test.1"
	// testRegistry is the registry of the images in the chart. TestReleaseRegistry of e2e/containerd starts it.
	testRegistry = "127.0.0.1:15543/candor"
	// maxBinary is the maximum size of candor in bytes: 28 MiB.
	maxBinary = 28 << 20
)

// releaseFolder is the directory in which make test-release builds its releases.
func releaseFolder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("CANDOR_RELEASE")
	if dir == "" {
		t.Skip("builds a release twice: make test-release runs it")
	}
	return dir
}

// release builds a release of a commit in a new clone, with more environment variables, and returns its dist.
func release(t *testing.T, dir, commit string, env ...string) string {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	run(t, "", "git", "-c", "safe.directory=*", "clone", "--quiet", "..", dir)
	run(t, dir, "git", "checkout", "--quiet", "--detach", commit)
	file := filepath.Join(dir, "CHANGELOG.md")
	text := readFile(t, file)
	section := "## [" + testVersion[1:] + "] - 2026-01-01\n\n### Added\n\n- A test.\n\n## [0.0.0] - 2025-12-31\n"
	before, after, found := strings.Cut(text, "## [Unreleased]\n")
	if !found {
		t.Fatal("CHANGELOG.md has no section Unreleased")
	}
	writeFile(t, file, before+"## [Unreleased]\n\n"+section+after, 0o644)
	commitAll(t, dir)
	run(t, dir, "env", append(env, "make", "release", "VERSION="+testVersion, "REGISTRY="+testRegistry, "MAKEFLAGS=")...)
	return filepath.Join(dir, "dist")
}

// run runs a program in a directory, with a fixed time for commits, and returns its output.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			out = append(out, exit.Stderr...)
		}
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReleaseFiles builds a release in two directories, the second time with other environment variables. All files are equal, and
// have the content of a release.
func TestReleaseFiles(t *testing.T) {
	dir := releaseFolder(t)
	t.Setenv("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
	t.Setenv("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
	commit := strings.TrimSpace(run(t, "..", "git", "-c", "safe.directory=*", "rev-parse", "HEAD"))
	dist := release(t, filepath.Join(dir, "a"), commit)
	var env []string
	for _, name := range []string{"CANDOR_STATE_DIR", "CANDOR_CONFIG", "CANDOR_CGROUP_PARENT", "CANDOR_CGROUP_DRIVER", "XDG_RUNTIME_DIR", "KUBECONFIG", "NODE_NAME"} {
		env = append(env, name+"=/planted")
	}
	again := release(t, filepath.Join(dir, "other", "directory"), commit, env...)
	files := tree(t, dist)
	if other := tree(t, again); !slices.Equal(files, other) {
		t.Fatalf("two runs write\n%q and\n%q", files, other)
	}
	for _, want := range []string{
		"candor-linux-amd64", "candor-linux-arm64", "candor-linux-amd64.cdx.json", "candor-scheduler-linux-arm64.cdx.json", "candor-web-linux-amd64",
		"candor_0.0.1-test.1_amd64.deb", "candor_0.0.1-test.1_arm64.deb", "candor-0.0.1-test.1.x86_64.rpm", "candor-0.0.1-test.1.aarch64.rpm",
		"candor-0.0.1-test.1.tgz", "candor-image.tar", "candor-scheduler-image.tar", "candor-web-image.tar", "images.txt", "RELEASE_NOTES.md", "SHA256SUMS",
		"candor-nri.service", "candor.yaml", "kubectl-candor-linux-amd64.tar.gz", "kubectl-candor-linux-arm64.tar.gz", "kubectl-candor-darwin-arm64.tar.gz",
		"kubectl-candor-linux-amd64.cdx.json",
	} {
		if !slices.Contains(files, "/"+want) {
			t.Errorf("dist lacks %s", want)
		}
	}
	for _, name := range files[1:] {
		if readFile(t, dist+name) != readFile(t, again+name) {
			t.Errorf("%s differs between two runs", name)
		}
	}
	run(t, dist, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	if notes := readFile(t, filepath.Join(dist, "RELEASE_NOTES.md")); notes != "### Added\n\n- A test.\n\n" && notes != "### Added\n\n- A test.\n" {
		t.Errorf("the notes are %q", notes)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, program := range []string{"candor", "candor-scheduler", "candor-web"} {
			checkBinary(t, filepath.Join(dist, program+"-linux-"+arch))
		}
	}
	t.Run("packages", func(t *testing.T) { checkPackages(t, dist) })
	t.Run("dpkg", func(t *testing.T) { checkInstallation(t, dist) })
	t.Run("chroot", func(t *testing.T) { checkChroot(t, dist) })
	t.Run("images", func(t *testing.T) { checkImages(t, dist) })
	t.Run("plugin", func(t *testing.T) { checkPlugin(t, dist) })
}

// checkPlugin checks that krew's manifest names the archives with their sums, and that the plugin of this machine runs and names
// the image of the release by its digest.
func checkPlugin(t *testing.T, dist string) {
	var manifest struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct {
				URI, SHA256, Bin string
				Selector         struct {
					MatchLabels struct{ OS, Arch string } `yaml:"matchLabels"`
				}
				Files []struct{ From, To string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, filepath.Join(dist, "candor.yaml"))), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Metadata.Name != "candor" || manifest.Spec.Version != testVersion || len(manifest.Spec.Platforms) != 4 {
		t.Fatalf("%+v, want 4 platforms of %s", manifest, testVersion)
	}
	for _, p := range manifest.Spec.Platforms {
		name := "kubectl-candor-" + p.Selector.MatchLabels.OS + "-" + p.Selector.MatchLabels.Arch + ".tar.gz"
		sum, _, _ := strings.Cut(run(t, dist, "sha256sum", name), " ")
		if !strings.HasSuffix(p.URI, "/releases/download/"+testVersion+"/"+name) || p.SHA256 != sum || p.Bin != "kubectl-candor" || len(p.Files) != 2 {
			t.Errorf("%+v, want %s with the sum %s", p, name, sum)
		}
		if list := run(t, dist, "tar", "-tzf", name); list != "LICENSE\nkubectl-candor\n" {
			t.Errorf("%s has the files %q", name, list)
		}
	}
	dir := t.TempDir()
	run(t, dir, "tar", "-xzf", filepath.Join(dist, "kubectl-candor-linux-"+strings.TrimSpace(run(t, "", "dpkg", "--print-architecture"))+".tar.gz"))
	if got := run(t, dir, "./kubectl-candor", "--version"); got != "kubectl-candor "+testVersion+"\n" {
		t.Errorf("--version prints %q", got)
	}
	t.Run("krew", func(t *testing.T) {
		run(t, dir, "env", "GOBIN="+dir, "go", "install", "sigs.k8s.io/krew/cmd/krew@v0.5.0")
		archive := filepath.Join(dist, "kubectl-candor-linux-"+strings.TrimSpace(run(t, "", "dpkg", "--print-architecture"))+".tar.gz")
		run(t, dir, "env", "KREW_ROOT="+filepath.Join(dir, "root"), "./krew", "install", "--manifest", filepath.Join(dist, "candor.yaml"), "--archive", archive)
		if got := run(t, dir, "root/bin/kubectl-candor", "--version"); got != "kubectl-candor "+testVersion+"\n" {
			t.Errorf("after krew install, --version prints %q", got)
		}
	})
	image, _, _ := strings.Cut(readFile(t, filepath.Join(dist, "images.txt")), "\n")
	if help := run(t, dir, "./kubectl-candor", "audit", "--help"); !strings.Contains(help, image) {
		t.Errorf("the default of --image is not %s:\n%s", image, help)
	}
}

// checkBinary checks that a program is static, without symbols and build ID, and that its list of modules has the version.
func checkBinary(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(info.Name(), "candor-linux-") && info.Size() > maxBinary {
		t.Errorf("%s has %d bytes, want at most %d", info.Name(), info.Size(), maxBinary)
	}
	program, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, s := range []string{".interp", ".symtab", ".debug_info", ".dynamic"} {
		if program.Section(s) != nil {
			t.Errorf("%s has a section %s", info.Name(), s)
		}
	}
	var list struct {
		BOMFormat string `json:"bomFormat"`
		Metadata  struct {
			Component struct{ Version string }
		}
		Components []any
	}
	if err := json.Unmarshal([]byte(readFile(t, file+".cdx.json")), &list); err != nil {
		t.Fatal(err)
	}
	if list.BOMFormat != "CycloneDX" || list.Metadata.Component.Version != testVersion || len(list.Components) < 20 {
		t.Errorf("%s.cdx.json: format %q, version %q, %d components", info.Name(), list.BOMFormat, list.Metadata.Component.Version, len(list.Components))
	}
}

// checkPackages checks the files of the packages with dpkg and rpm, and that lintian reports no error. make test-release installs these
// programs.
func checkPackages(t *testing.T, dist string) {
	deb, rpm := filepath.Join(dist, "candor_0.0.1-test.1_amd64.deb"), filepath.Join(dist, "candor-0.0.1-test.1.x86_64.rpm")
	list := run(t, "", "dpkg-deb", "--contents", deb)
	for _, want := range []string{
		" ./usr/bin/candor\n", " ./usr/bin/candor-runc -> candor\n", " ./usr/bin/candor-flexible-runc -> candor\n", " ./etc/candor/nri.yaml\n",
		" ./usr/lib/systemd/system/candor-nri.service\n", " ./usr/share/man/man1/candor-run.1.gz\n", " ./usr/share/doc/candor/copyright\n",
		" ./usr/share/bash-completion/completions/candor\n", " ./usr/share/zsh/vendor-completions/_candor\n", " ./usr/share/doc/candor/LICENSE\n",
	} {
		if !strings.Contains(list, want) {
			t.Errorf("the deb lacks %q in\n%s", want, list)
		}
	}
	if got := run(t, "", "dpkg-deb", "--info", deb, "conffiles"); got != "/etc/candor/nri.yaml\n" {
		t.Errorf("conffiles of the deb: %q", got)
	}
	if got := run(t, "", "dpkg-deb", "--field", deb, "Version"); got != "0.0.1~test.1-1\n" {
		t.Errorf("version of the deb: %q", got)
	}
	list = run(t, "", "rpm", "--query", "--package", "--list", rpm)
	for _, want := range []string{"/usr/bin/candor\n", "/usr/share/licenses/candor/LICENSE\n", "/usr/share/zsh/site-functions/_candor\n", "/usr/share/man/man1/candor.1.gz\n"} {
		if !strings.Contains(list, want) {
			t.Errorf("the rpm lacks %q in\n%s", want, list)
		}
	}
	if got := run(t, "", "rpm", "--query", "--package", "--configfiles", rpm); got != "/etc/candor/nri.yaml\n" {
		t.Errorf("configuration files of the rpm: %q", got)
	}
	if got := run(t, "", "rpm", "--query", "--package", "--scripts", rpm); !strings.Contains(got, "candor uninstall") {
		t.Errorf("scripts of the rpm:\n%s", got)
	}
	// lintian exits with 2 for an error in the package, and with 1 if it cannot check the package.
	if out, err := exec.Command("lintian", "--allow-root", "--fail-on", "error", "--tag-display-limit=0", deb).CombinedOutput(); err != nil {
		t.Errorf("lintian: %v\n%s", err, out)
	}
}

// checkInstallation installs, removes and purges the deb in a directory, with dpkg and the package's scripts. The scripts do not
// call systemctl there.
func checkInstallation(t *testing.T, dist string) {
	if os.Getuid() != 0 {
		t.Skip("dpkg needs root")
	}
	deb, root := ownDeb(t, dist), dpkgRoot(t)
	if err := os.MkdirAll(filepath.Join(root, "usr/local/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	dpkg := func(args ...string) (string, error) {
		return dpkgIn(root, append([]string{"--force-script-chrootless"}, args...)...)
	}
	files := func() (list []string) {
		for _, name := range tree(t, root) {
			if !strings.HasPrefix(name, "/var") {
				list = append(list, name)
			}
		}
		return list
	}
	before := files()
	handMade := filepath.Join(root, "usr/local/bin/candor")
	writeFile(t, handMade, "", 0o755)
	if out, err := dpkg("--install", deb); err == nil || !strings.Contains(out, "/usr/local/bin/candor is not of a package") {
		t.Errorf("over make install: %v\n%s", err, out)
	}
	if err := os.Remove(handMade); err != nil {
		t.Fatal(err)
	}
	if now := files(); !slices.Equal(now, before) {
		t.Errorf("the refused package has left %q", now)
	}
	config := filepath.Join(root, "etc/candor/nri.yaml")
	for _, step := range []struct {
		args      []string
		hasConfig bool
	}{{[]string{"--install", deb}, true}, {[]string{"--install", deb}, true}, {[]string{"--remove", "candor"}, true}, {[]string{"--purge", "candor"}, false}} {
		out, err := dpkg(step.args...)
		if _, statErr := os.Stat(config); err != nil || (statErr == nil) != step.hasConfig {
			t.Fatalf("dpkg %q: %v, %v\n%s", step.args, err, statErr, out)
		}
		if step.hasConfig {
			writeFile(t, config, "version: 1\n# changed\n", 0o644)
		}
	}
	if now := files(); !slices.Equal(now, before) {
		t.Errorf("dpkg --purge leaves %q, want %q", now, before)
	}
}

// ownDeb returns the deb for this machine.
func ownDeb(t *testing.T, dist string) string {
	t.Helper()
	return filepath.Join(dist, "candor_0.0.1-test.1_"+strings.TrimSpace(run(t, "", "dpkg", "--print-architecture"))+".deb")
}

// dpkgRoot returns a directory in which dpkg can install packages.
func dpkgRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(root, "var/lib/dpkg/status"), "", 0o644)
	writeFile(t, filepath.Join(root, "etc/hostname"), "", 0o644) // dpkg removes directories that are empty
	return root
}

func dpkgIn(root string, args ...string) (string, error) {
	out, err := exec.Command("dpkg", append([]string{"--root=" + root, "--log=/dev/null"}, args...)...).CombinedOutput()
	return string(out), err
}

// checkChroot installs and removes the deb in a root directory without /proc and cgroups, as the build of an image can be. dpkg runs
// the package's scripts, and they run candor, in this root directory. A state there prevents the removal, with a line.
func checkChroot(t *testing.T, dist string) {
	busybox, err := exec.LookPath("busybox")
	if os.Getuid() != 0 || err != nil {
		t.Skipf("needs root and busybox: %v", err)
	}
	root := dpkgRoot(t)
	writeFile(t, filepath.Join(root, "bin/sh"), readFile(t, busybox), 0o755)
	writeFile(t, filepath.Join(root, "bin/rm"), readFile(t, busybox), 0o755)
	lock := filepath.Join(root, "run/candor/lock")
	for _, isInUse := range []bool{false, true} {
		if out, err := dpkgIn(root, "--install", ownDeb(t, dist)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if isInUse {
			writeFile(t, lock, "", 0o600)
			if out, err := dpkgIn(root, "--remove", "candor"); err == nil || !strings.Contains(out, "candor internal-removal: ") {
				t.Errorf("with a state: %v\n%s", err, out)
			}
			if err := os.Remove(lock); err != nil {
				t.Fatal(err)
			}
		}
		out, err := dpkgIn(root, "--purge", "candor")
		if _, statErr := os.Stat(filepath.Join(root, "usr/bin/candor")); err != nil || !os.IsNotExist(statErr) {
			t.Errorf("%v, %v\n%s", err, statErr, out)
		}
	}
}

// checkImages checks that images.txt, the archives and the chart name the same digests.
func checkImages(t *testing.T, dist string) {
	references := strings.Fields(readFile(t, filepath.Join(dist, "images.txt")))
	if len(references) != 3 {
		t.Fatalf("%q, want 3 images", references)
	}
	chartFile := filepath.Join(dist, "candor-0.0.1-test.1.tgz")
	// helm that is built by go install takes the cluster for Kubernetes 1.20.
	args := []string{"template", "candor", chartFile, "--kube-version", "1.30.0", "--set", "publish=true,scheduler.enabled=true,ledger.enabled=true,web.enabled=true"}
	rendered := run(t, "", findHelm(t), args...)
	for i, program := range []string{"candor", "candor-scheduler", "candor-web"} {
		prefix := testRegistry + "/" + program + ":" + testVersion + "@"
		digest := strings.TrimPrefix(references[i], prefix)
		if !strings.HasPrefix(references[i], prefix) {
			t.Errorf("images.txt has %s, want %s…", references[i], prefix)
		}
		index := fromTar(t, filepath.Join(dist, program+"-image.tar"), "index.json")
		if !strings.Contains(index, `"`+digest+`"`) {
			t.Errorf("%s-image.tar has another digest than %s:\n%s", program, digest, index)
		}
		if want := `image: "` + testRegistry + "/" + program + "@" + digest + `"`; !strings.Contains(rendered, want) {
			t.Errorf("the chart lacks %s", want)
		}
	}
	if other := run(t, "", findHelm(t), append(args, "--set", "image.tag=v9")...); !strings.Contains(other, testRegistry+`/candor:v9"`) {
		t.Error("image.tag does not replace the digest")
	}
	for name, want := range map[string]string{
		"candor/Chart.yaml": "\nversion: 0.0.1-test.1\n", "candor/values.yaml": "repository: " + testRegistry + "/candor-scheduler\n",
		"candor/README.md": "## Values", "candor/crds/candor.dev_nodecpus.yaml": "NodeCPU",
	} {
		if text := fromTar(t, chartFile, name); !strings.Contains(text, want) {
			t.Errorf("%s of the chart lacks %q", name, want)
		}
	}
}

// fromTar returns the text of a file in a tar archive, which can be compressed (.tgz).
func fromTar(t *testing.T, archive, name string) string {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var in io.Reader = file
	if strings.HasSuffix(archive, ".tgz") {
		if in, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	for files := tar.NewReader(in); ; {
		header, err := files.Next()
		if err != nil {
			t.Fatalf("%s: no %s: %v", archive, name, err)
		}
		if header.Name == name {
			text, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
}

// TestReleaseReadme: the README of the chart is that of its values.
func TestReleaseReadme(t *testing.T) {
	releaseFolder(t)
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	run(t, "..", "bin/tools/release/helm-docs", "--chart-search-root", copied, "--log-level", "warning")
	if readFile(t, filepath.Join(copied, "README.md")) != readFile(t, filepath.Join(chart, "README.md")) {
		t.Error("README.md of the chart is not current: run make chart-readme")
	}
}
