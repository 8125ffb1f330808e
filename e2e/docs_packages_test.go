package e2e

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/docblock"
)

// A scratchRoot is a root directory with all files of this machine's root, in which a test installs packages. Its files are an overlay,
// and changes disappear with the test. Its cgroups and processes are those of the machine.
type scratchRoot struct {
	*lab
	pid int // a process with this root directory
}

// scratchScript makes the root directory $1 in its own mount namespace, and retains it until the end of its standard input. It copies
// the files of $2 to /run/install. The installed Candor of the machine, if any, is not visible.
const scratchScript = `set -e
mount -t tmpfs -o mode=755 tmpfs "$1"
cd "$1"
mkdir upper work root
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root
for dir in dev proc sys; do mount --rbind "/$dir" "root/$dir"; done
mount -t tmpfs -o mode=755 tmpfs root/run
mkdir root/run/install
cp "$2"/* root/run/install/
cd root
rm -rf etc/candor usr/local/bin/candor* usr/local/lib/systemd/system/candor-nri.service
mkdir -p mnt etc/systemd/system etc/apt/apt.conf.d usr/local/bin
printf '%s\n' 'APT::Get::Assume-Yes "true";' 'APT::Install-Recommends "false";' >etc/apt/apt.conf.d/99test
printf '#!/bin/sh\necho "$@" >>/run/systemctl\n' >usr/local/bin/systemctl
printf '#!/bin/sh\n%s\n' "$3" >usr/local/bin/dnf
chmod 755 usr/local/bin/systemctl usr/local/bin/dnf
pivot_root . mnt
cd /
umount --lazy /mnt
echo ready
exec cat
`

// dnfScript runs rpm for dnf, without the dependency on /bin/sh: the machine has it, but not from an rpm.
const dnfScript = `debian=; ! rpm --help | grep -q -e --force-debian || debian=--force-debian
case $1 in
install) exec rpm $debian --nodeps --install "$2" ;;
upgrade) exec rpm $debian --nodeps --upgrade --replacepkgs "$2" ;;
remove) exec rpm $debian --nodeps --erase "$2" ;;
esac
exit 2`

// newScratchRoot makes a root directory with the files of a directory in /run/install.
func newScratchRoot(t *testing.T, files string) *scratchRoot {
	t.Helper()
	l := newLab(t)
	l.need(2)
	if _, err := os.Stat("/usr/bin/candor"); err == nil {
		t.Skip("a package of candor is installed on this machine")
	}
	cmd := exec.Command("sh", "-c", scratchScript, "sh", t.TempDir(), files, dnfScript)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // also makes the mounts private
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	n := l.launch(cmd)
	t.Cleanup(func() { input.Close() })
	if got := n.line(t); got != "ready" {
		t.Fatalf("the root directory: %q", got)
	}
	return &scratchRoot{l, cmd.Process.Pid}
}

// command returns a shell command in /run/install, with the default settings of candor except for the group.
func (r *scratchRoot) command(text string) *exec.Cmd {
	cmd := exec.Command("nsenter", "--target", strconv.Itoa(r.pid), "--mount", "sh", "-c", "cd /run/install || exit 1\n"+text)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive",
		"CANDOR_CGROUP_PARENT=" + r.parent, "CANDOR_CGROUP_DRIVER=" + string(r.driver)}
	cmd.WaitDelay = time.Minute
	return cmd
}

// does runs shell commands, which must succeed, and returns the output of the last.
func (r *scratchRoot) does(commands ...string) (output string) {
	r.Helper()
	for _, command := range commands {
		got := do(r.T, r.command(command))
		if got.code != 0 {
			r.Fatalf("%s: %+v", command, got)
		}
		output = got.out
	}
	return output
}

// has checks whether files exist.
func (r *scratchRoot) has(want bool, files ...string) {
	r.Helper()
	for _, file := range files {
		if got := do(r.T, r.command("test -e "+file)); (got.code == 0) != want {
			r.Errorf("%s exists: %t, want %t", file, got.code == 0, want)
		}
	}
}

// A scratchProgram is a program of candor run with a CPU of its own.
type scratchProgram struct {
	*scratchRoot
	pid  int
	cpus cpuset.Set
}

// startProgram starts such a program.
func (r *scratchRoot) startProgram() *scratchProgram {
	r.Helper()
	cmd := r.command("exec candor run --name web --cpu 1 --class sensitive -- sleep 9999")
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var rows []row
		if err := json.Unmarshal([]byte(r.does("candor ps -o json")), &rows); err != nil {
			r.Fatal(err)
		}
		if len(rows) != 1 || rows[0].State != "running" {
			continue
		}
		p := &scratchProgram{scratchRoot: r, pid: rows[0].PID}
		p.cpus = p.affinity()
		if p.cpus.Count() == 1 {
			return p
		}
	}
	r.Fatalf("the program does not run with one CPU: %s", r.does("candor ps"))
	return nil
}

// affinity returns the CPUs of the program, which must still run.
func (p *scratchProgram) affinity() (cpus cpuset.Set) {
	p.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(p.pid, &set); err != nil {
		p.Fatalf("the program does not run any more: %v", err)
	}
	for cpu := range p.usable.All() {
		if set.IsSet(cpu) {
			cpus.Add(cpu)
		}
	}
	return cpus
}

// keeps checks that the program has the same CPUs as at its start.
func (p *scratchProgram) keeps() {
	p.Helper()
	if cpus := p.affinity(); cpus != p.cpus {
		p.Errorf("after the upgrade, the program has the CPUs %v, had %v", cpus, p.cpus)
	}
}

// givenBack checks that the program runs on all CPUs.
func (p *scratchProgram) givenBack() {
	p.Helper()
	if cpus := p.affinity(); cpus != p.usable {
		p.Errorf("after the removal, the program has the CPUs %v, want %v", cpus, p.usable)
	}
}

// releasedFiles returns the files of a release that make test-release has built, for amd64 as in the documents.
func releasedFiles(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("CANDOR_RELEASE")
	if folder == "" {
		t.Skip("needs a release: make test-release builds one")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the documents name the files for amd64")
	}
	return filepath.Join(folder, "a", "dist")
}

// copyFile copies a file to a directory under a new name.
func copyFile(t *testing.T, file, dir, name string) string {
	t.Helper()
	source, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	to := filepath.Join(dir, name)
	target, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if _, err := io.Copy(target, source); err != nil {
		t.Fatal(err)
	}
	return to
}

// packageFile is the name of a package in a command.
var packageFile = regexp.MustCompile(`\./(\S+\.(?:deb|rpm))`)

// packageName returns the name of the package file in commands of the documents.
func packageName(t *testing.T, commands []string) string {
	t.Helper()
	match := packageFile.FindStringSubmatch(strings.Join(commands, "\n"))
	if match == nil {
		t.Fatalf("no name of a package in %q", commands)
	}
	return match[1]
}

// installRow returns the commands of a row of a table in docs/install.md.
func installRow(t *testing.T, heading, first string) []string {
	t.Helper()
	commands, err := docblock.Row(installPage, heading, first)
	if err != nil {
		t.Fatal(err)
	}
	return commands
}

const installed = "/usr/bin/candor /usr/bin/candor-runc /usr/lib/systemd/system/candor-nri.service /usr/share/man/man1/candor-run.1.gz"

// TestReleaseInstallDocs runs the commands of docs/install.md that install, upgrade and remove the deb, the rpm and the static binary of
// a release. A program of candor run keeps its CPUs during the upgrade, and gets all CPUs by the removal.
func TestReleaseInstallDocs(t *testing.T) {
	dist := releasedFiles(t)
	t.Run("deb", func(t *testing.T) { checkDebDocs(t, filepath.Join(dist, "candor_0.0.1-test.1_amd64.deb")) })
	t.Run("rpm", func(t *testing.T) { checkRPMDocs(t, filepath.Join(dist, "candor-0.0.1-test.1.x86_64.rpm")) })
	t.Run("static", func(t *testing.T) { checkStaticDocs(t, dist) })
}

func checkDebDocs(t *testing.T, deb string) {
	block, upgrade, files := installBlocks(t, "### Debian and Ubuntu")[0], installRow(t, "## Upgrade", "deb"), t.TempDir()
	file := copyFile(t, deb, files, packageName(t, block.Commands))
	// The next version has the same files.
	const script = `dpkg-deb --raw-extract "$1" "$2" && sed -i 's/^Version: .*/Version: 0.0.2-1/' "$2/DEBIAN/control" && dpkg-deb -Znone --build "$2" "$3"`
	if got := do(t, exec.Command("sh", "-c", script, "sh", file, t.TempDir(), filepath.Join(files, packageName(t, upgrade)))); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	r := newScratchRoot(t, files)
	runBlock(t, block, func(command string) outcome { return do(t, r.command(command)) })
	r.has(true, strings.Fields(installed)...)

	p := r.startProgram()
	r.does("echo '# changed' >>/etc/candor/nri.yaml")
	r.does(upgrade...)
	p.keeps()
	if version := r.does("dpkg-query --show --showformat '${Version}' candor"); version != "0.0.2-1" {
		t.Errorf("after the upgrade, the version is %q", version)
	}
	removal := installRow(t, "## Remove", "deb")
	if len(removal) != 2 {
		t.Fatalf("docs/install.md: %q, want a removal and a purge", removal)
	}
	r.does(removal[0])
	p.givenBack()
	r.has(false, strings.Fields(installed)...)
	if config := r.does("cat /etc/candor/nri.yaml"); !strings.HasSuffix(config, "# changed\n") {
		t.Errorf("after the removal, the configuration is %q", config)
	}
	r.does(removal[1])
	r.has(false, "/etc/candor")
}

func checkRPMDocs(t *testing.T, rpm string) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skipf("make test-release installs it: %v", err)
	}
	block, upgrade, files := installBlocks(t, "### Fedora, RHEL and SUSE")[0], installRow(t, "## Upgrade", "rpm"), t.TempDir()
	copyFile(t, rpm, files, packageName(t, block.Commands))
	copyFile(t, rpm, files, packageName(t, upgrade))
	r := newScratchRoot(t, files)
	runBlock(t, block, func(command string) outcome { return do(t, r.command(command)) })
	r.has(true, strings.Fields(installed)...)

	p := r.startProgram()
	r.does("echo '# changed' >>/etc/candor/nri.yaml")
	r.does(upgrade...)
	p.keeps()
	r.does(installRow(t, "## Remove", "rpm")...)
	p.givenBack()
	r.has(false, append(strings.Fields(installed), "/etc/candor/nri.yaml")...)
	r.has(true, "/etc/candor/nri.yaml.rpmsave")
}

func checkStaticDocs(t *testing.T, dist string) {
	files := t.TempDir()
	copyFile(t, filepath.Join(dist, "candor-linux-amd64"), files, "candor-linux-amd64")
	copyFile(t, filepath.Join(dist, "candor-nri.service"), files, "candor-nri.service")
	r := newScratchRoot(t, files)
	blocks := installBlocks(t, "### Static binary")
	if len(blocks) != 2 {
		t.Fatalf("docs/install.md: %q, want the binary and the unit", blocks)
	}
	for _, block := range blocks {
		runBlock(t, block, func(command string) outcome { return do(t, r.command(command)) })
	}
	const binary, unit = "/usr/local/bin/candor /usr/local/bin/candor-runc /usr/local/bin/candor-flexible-runc", "/etc/systemd/system/candor-nri.service"
	r.has(true, append(strings.Fields(binary), unit, "/etc/candor/nri.yaml")...)
	r.does("candor config check /etc/candor/nri.yaml")

	p := r.startProgram()
	r.does(installRow(t, "## Upgrade", "static binary")...)
	p.keeps()
	runBlock(t, installBlocks(t, "### Remove the static binary")[0], func(command string) outcome { return do(t, r.command(command)) })
	p.givenBack()
	r.has(false, append(strings.Fields(binary), unit)...)
	if calls := r.does("cat /run/systemctl"); calls != "daemon-reload\nrestart candor-nri\ndaemon-reload\n" {
		t.Errorf("the commands call systemctl with %q", calls)
	}
}
