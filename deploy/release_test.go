package deploy

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// releaseTree writes a repository with the release script, a changelog and a commit.
func releaseTree(t *testing.T, changelog string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"scripts/release.sh", "scripts/push.sh"} {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name), string(text), 0o755)
	}
	writeFile(t, filepath.Join(dir, "CHANGELOG.md"), changelog, 0o644)
	writeFile(t, filepath.Join(dir, ".gitignore"), "/dist/\n", 0o644)
	commitAll(t, dir)
	return dir
}

func writeFile(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func commitAll(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "t"}} {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
}

const changelog = `# Changelog

## [Unreleased]

## [1.2.3] - 2026-11-27

### Added

- A feature.

## [1.2.2] - 2026-11-01

## [1.2.1]

- No date.

[Unreleased]: https://example.org
`

// releaseLine runs the release script and returns its only line.
func releaseLine(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "scripts/release.sh"), args...)
	cmd.Env = append(os.Environ(), "GO=/no/such/go", "REGISTRY=registry.example", "KUBERNETES=v1.0.0")
	out, err := cmd.CombinedOutput()
	if strings.Count(string(out), "\n") > 1 {
		t.Errorf("release.sh %q prints several lines:\n%s", args, out)
	}
	return strings.TrimSpace(string(out)), err
}

// TestReleaseRefusals: a version that is not semantic, a version without a section in CHANGELOG.md, and a changed source tree are
// refused with one line, before anything is written.
func TestReleaseRefusals(t *testing.T) {
	dir := releaseTree(t, changelog)
	if line, err := releaseLine(t, dir, "--check", "v1.2.3"); err != nil || line != "" {
		t.Errorf("v1.2.3: %q, %v", line, err)
	}
	for version, want := range map[string]string{
		"":               `VERSION "": must be a semantic version such as v0.2.0`,
		"1.2.3":          `VERSION "1.2.3": must be a semantic version`,
		"v1.2":           "must be a semantic version",
		"v01.2.3":        "must be a semantic version",
		"v1.2.3-01":      "must be a semantic version",
		"v1.2.3-":        "must be a semantic version",
		"v1.2.3-a..b":    "must be a semantic version",
		"v1.2.3+build":   "must be a semantic version", // + is not valid in tags of images
		"v1.2.3\nv1.2.4": "must be a semantic version",
		"017ff25e-dirty": `run make release VERSION=v0.2.0`,
		"v9.9.9":         `CHANGELOG.md has no section "## [9.9.9] - `,
		"v1.2.3-rc.1":    `CHANGELOG.md has no section "## [1.2.3-rc.1] - `,
		"v1.2.1":         `CHANGELOG.md has no section "## [1.2.1] - `, // without a date
		"v1.2.2":         "CHANGELOG.md: the section 1.2.2 is empty",
		"v112.3":         "must be a semantic version",
	} {
		for _, args := range [][]string{{"--check", version}, {version}} {
			line, err := releaseLine(t, dir, args...)
			if err == nil || !strings.HasPrefix(line, "make release: ") || !strings.Contains(strings.ReplaceAll(line, "\n", " "), want) {
				t.Errorf("%q: %q, %v; want %q", args, line, err, want)
			}
		}
	}
	for _, file := range []string{"CHANGELOG.md", "new file"} {
		dir := releaseTree(t, changelog)
		writeFile(t, filepath.Join(dir, file), changelog+"\n", 0o644)
		if line, err := releaseLine(t, dir, "v1.2.3"); err == nil || !strings.Contains(line, "1 changed files, such as ") || !strings.Contains(line, file) {
			t.Errorf("changed %s: %q, %v", file, line, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "dist.new")); err == nil {
			t.Errorf("changed %s: the refused release has written dist.new", file)
		}
	}
}

var (
	versionHeading = regexp.MustCompile(`^\[(Unreleased|[0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?)\](?: - 20[0-9]{2}-[01][0-9]-[0-3][0-9])?$`)
	kindHeadings   = []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
)

// TestChangelog: CHANGELOG.md has the form of keepachangelog.com: a section for each version with its date, the newest first, and in
// it the kinds of changes. Each version has a link.
func TestChangelog(t *testing.T) {
	text := readFile(t, "../CHANGELOG.md")
	versions, kinds := 0, map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if kind, isKind := strings.CutPrefix(line, "### "); isKind {
			if !slices.Contains(kindHeadings, kind) || kinds[kind] {
				t.Errorf("%q: must be one of %q, once a version", line, kindHeadings)
			}
			kinds[kind] = true
		}
		heading, isVersion := strings.CutPrefix(line, "## ")
		if !isVersion {
			continue
		}
		versions, kinds = versions+1, map[string]bool{}
		match := versionHeading.FindStringSubmatch(heading)
		if match == nil || (match[1] == "Unreleased") != (versions == 1) || (heading == "[Unreleased]") != (match[1] == "Unreleased") {
			t.Errorf("%q: must be [Unreleased] first, then a version and its date, such as [0.2.0] - 2026-12-01", line)
		} else if !strings.Contains(text, "\n["+match[1]+"]: https://") {
			t.Errorf("%q has no link", line)
		}
	}
	if versions == 0 {
		t.Error("no versions")
	}
}

// TestPushRefusals: nothing is pushed from a missing, half-written or changed dist.
func TestPushRefusals(t *testing.T) {
	dir := releaseTree(t, changelog)
	push := func(want string, args ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(dir, "scripts/push.sh"), args...)
		cmd.Env = append(os.Environ(), "GO=/no/such/go")
		out, err := cmd.CombinedOutput()
		if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), want) {
			t.Errorf("push.sh %q: %v, %q; want %q", args, err, out, want)
		}
	}
	push("no argument: must be images, chart, sign or github")
	push(`argument "all": must be images`, "images", "all")
	push("no dist/SHA256SUMS: run make release first", "images")
	writeFile(t, filepath.Join(dir, "dist/candor"), "program", 0o644)
	push("no dist/SHA256SUMS: run make release first", "images")
	const sum = "9ddf9d6d0a3e2b3c5d9d6a4f1a5e2b3c5d9d6a4f1a5e2b3c5d9d6a4f1a5e2b3c  "
	writeFile(t, filepath.Join(dir, "dist/SHA256SUMS"), sum+"candor\n", 0o644)
	push("dist differs from its SHA256SUMS (candor: FAILED", "images", "chart")
	writeFile(t, filepath.Join(dir, "dist/extra"), "", 0o644)
	push("dist has other files than its SHA256SUMS, such as extra: run make release again", "images")
}

// pushTree writes a repository with a dist of a single image and the chart, and with stubs of the programs that push.sh calls. Each
// stub appends its arguments to the file calls. The stub of helm also appends the time of the chart's file.
func pushTree(t *testing.T) string {
	t.Helper()
	dir := releaseTree(t, changelog)
	digest := "@sha256:" + strings.Repeat("1", 64)
	for name, text := range map[string]string{
		"dist/images.txt":          "registry.example/candor:v1.2.3" + digest + "\n",
		"chart/candor/Chart.yaml":  "name: candor\n",
		"chart/image/index.json":   "{}\n",
		"scripts/helm.sh":          "echo \"$PWD/stubs/helm\"\n",
		"stubs/helm":               "echo helm \"$1 $(basename \"$2\") $3 $4 $(date -r \"$2\" +%s)\" >>calls\necho Digest: sha256:" + strings.Repeat("2", 64) + "\n",
		"bin/tools/release/access": "echo access \"$@\" >>calls\n",
		"stubs/cosign":             "echo cosign \"$@\" >>calls\n",
		"bin/tools/release/image":  "for last; do :; done\necho image \"$@\" | sed \"s:$TMPDIR:TMP:g; s:tmp[.][^/]*:STAGE:\" >>calls\necho ${last%:*}" + digest + "\n",
		"chart/candor/values.yaml": "",
	} {
		if !strings.HasPrefix(name, "chart/") && !strings.HasPrefix(name, "dist/") {
			text = "#!/bin/sh\n" + text
		}
		writeFile(t, filepath.Join(dir, name), text, 0o755)
	}
	run(t, dir, "touch", "-d", "@1764201600", "chart/candor/Chart.yaml")
	run(t, dir, "tar", "-C", "chart", "-czf", "dist/candor-1.2.3.tgz", "candor")
	run(t, dir, "tar", "-C", "chart/image", "-cf", "dist/candor-image.tar", "index.json")
	run(t, dir, "sh", "-c", "cd dist && sha256sum candor-1.2.3.tgz candor-image.tar images.txt >SHA256SUMS")
	return dir
}

// runPush runs push.sh in such a repository, and returns its output and the calls of programs.
func runPush(t *testing.T, dir string, env []string, steps ...string) (calls, output string, err error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "scripts/push.sh"), steps...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "stubs")+":"+os.Getenv("PATH"), "TMPDIR="+t.TempDir())
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	text, _ := os.ReadFile(filepath.Join(dir, "calls"))
	return string(text), string(out), err
}

// TestPushChart: the chart is pushed with the time of its content, which helm writes into the manifest, and is signed by the digest of
// this push. A chart of another dist is not signed.
func TestPushChart(t *testing.T) {
	const image, chart = "registry.example/candor@sha256:", "registry.example/charts/candor@sha256:"
	ones, twos := strings.Repeat("1", 64), strings.Repeat("2", 64)
	dir := pushTree(t)
	if calls, out, err := runPush(t, dir, nil, "sign"); err == nil || out != "make push: the chart of dist is not pushed: run make push first\n" || calls != "" {
		t.Errorf("sign without a push: %v, %q, %q", err, out, calls)
	}
	calls, out, err := runPush(t, dir, nil, "images", "chart")
	if want := "access registry.example/candor registry.example/charts/candor\nimage push TMP/STAGE/candor registry.example/candor:v1.2.3\nhelm push candor-1.2.3.tgz oci://registry.example/charts  1764201600\n"; err != nil || calls != want {
		t.Errorf("push: %v, %q, %q; want %q", err, out, calls, want)
	}
	if want := image + ones + "\n" + chart + twos + "\n"; out != want {
		t.Errorf("push prints %q, want %q", out, want)
	}
	if err := os.Remove(filepath.Join(dir, "calls")); err != nil {
		t.Fatal(err)
	}
	calls, out, err = runPush(t, dir, nil, "sign")
	if want := "cosign sign --yes " + image + ones + "\ncosign sign --yes " + chart + twos + "\n"; err != nil || calls != want {
		t.Errorf("sign: %v, %q, %q; want %q", err, out, calls, want)
	}
	writeFile(t, filepath.Join(dir, "dist/candor-1.2.3.tgz"), "another chart", 0o644)
	run(t, dir, "sh", "-c", "cd dist && sha256sum candor-1.2.3.tgz candor-image.tar images.txt >SHA256SUMS")
	if _, out, err := runPush(t, dir, nil, "sign"); err == nil || !strings.Contains(out, "the chart of dist is not pushed") {
		t.Errorf("sign after another release: %v, %q", err, out)
	}
}

// TestPushPlainHTTP: PLAIN_HTTP=1 applies to the images and to the chart.
func TestPushPlainHTTP(t *testing.T) {
	calls, out, err := runPush(t, pushTree(t), []string{"PLAIN_HTTP=1"}, "images", "chart")
	want := "access --plain-http registry.example/candor registry.example/charts/candor\nimage push --plain-http TMP/STAGE/candor registry.example/candor:v1.2.3\nhelm push candor-1.2.3.tgz oci://registry.example/charts --plain-http 1764201600\n"
	if err != nil || calls != want {
		t.Errorf("%v, %q, %q; want %q", err, out, calls, want)
	}
}

// TestPushRefusedByRegistry: nothing is pushed to a registry that refuses a part of the release. If the registry refuses later, the
// single line of the error names the pushed images, and sign refuses the dist.
func TestPushRefusedByRegistry(t *testing.T) {
	const isRefused = "#!/bin/sh\necho access: cannot push to registry.example/charts/candor: 403 Forbidden >&2\nexit 1\n"
	dir := pushTree(t)
	writeFile(t, filepath.Join(dir, "bin/tools/release/access"), isRefused, 0o755)
	calls, out, err := runPush(t, dir, nil, "images", "chart")
	if want := "make push: access: cannot push to registry.example/charts/candor: 403 Forbidden\n"; err == nil || out != want || calls != "" {
		t.Errorf("%v, %q, calls %q; want %q", err, out, calls, want)
	}

	digest := "@sha256:" + strings.Repeat("1", 64)
	first := "registry.example/candor" + digest
	dir = pushTree(t)
	writeFile(t, filepath.Join(dir, "dist/images.txt"), "registry.example/candor:v1.2.3"+digest+"\nregistry.example/candor-scheduler:v1.2.3"+digest+"\n", 0o644)
	run(t, dir, "cp", "dist/candor-image.tar", "dist/candor-scheduler-image.tar")
	run(t, dir, "sh", "-c", "cd dist && sha256sum candor-1.2.3.tgz candor-image.tar candor-scheduler-image.tar images.txt >SHA256SUMS")
	image := readFile(t, filepath.Join(dir, "bin/tools/release/image"))
	refusing := strings.Replace(image, "#!/bin/sh\n", "#!/bin/sh\ncase $* in *candor-scheduler*) echo image: 403 >&2; exit 1 ;; esac\n", 1)
	writeFile(t, filepath.Join(dir, "bin/tools/release/image"), refusing, 0o755)
	_, out, err = runPush(t, dir, nil, "images", "chart")
	if want := first + "\nmake push: image: 403; pushed before: " + first + "; repeat make push\n"; err == nil || out != want {
		t.Errorf("the second image: %v, %q; want %q", err, out, want)
	}

	writeFile(t, filepath.Join(dir, "bin/tools/release/image"), image, 0o755)
	writeFile(t, filepath.Join(dir, "stubs/helm"), "#!/bin/sh\necho Pushing >&2\necho Error: 403 >&2\nexit 1\n", 0o755)
	_, out, err = runPush(t, dir, nil, "images", "chart")
	second := strings.Replace(first, "/candor@", "/candor-scheduler@", 1)
	want := first + "\n" + second + "\nmake push: cannot push the chart to registry.example: Error: 403; pushed before: " + first + ", " + second + "; repeat make push\n"
	if err == nil || out != want {
		t.Errorf("the chart: %v, %q; want %q", err, out, want)
	}
	if _, out, err := runPush(t, dir, nil, "sign"); err == nil || !strings.Contains(out, "the chart of dist is not pushed") {
		t.Errorf("sign after a refused chart: %v, %q", err, out)
	}
}

// TestHelmPushRefused: the error of helm for a registry that refuses the chart is a single line.
func TestHelmPushRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("can build helm, which takes minutes")
	}
	helm, err := exec.Command("../scripts/helm.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	dir := pushTree(t)
	writeFile(t, filepath.Join(dir, "chart/candor/Chart.yaml"), "apiVersion: v2\nname: candor\nversion: 1.2.3\n", 0o644)
	run(t, dir, "tar", "-C", "chart", "-czf", "dist/candor-1.2.3.tgz", "candor")
	writeFile(t, filepath.Join(dir, "dist/images.txt"), address+"/candor:v1.2.3@sha256:"+strings.Repeat("1", 64)+"\n", 0o644)
	run(t, dir, "sh", "-c", "cd dist && sha256sum candor-1.2.3.tgz candor-image.tar images.txt >SHA256SUMS")
	writeFile(t, filepath.Join(dir, "scripts/helm.sh"), "#!/bin/sh\necho '"+strings.TrimSpace(string(helm))+"'\n", 0o755)
	_, out, err := runPush(t, dir, []string{"PLAIN_HTTP=1", "HOME=" + t.TempDir()}, "chart")
	want := "make push: cannot push the chart to " + address + ": Error: "
	if err == nil || !strings.HasPrefix(out, want) || !strings.Contains(out, "403") || strings.Count(out, "\n") != 1 {
		t.Errorf("%v, %q; want %q", err, out, want)
	}
}
