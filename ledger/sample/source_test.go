package sample

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/nodeproc"
	"github.com/candor-project/candor/ledger"
)

// The test binary is also the process that the tests sample: with SAMPLE_TEST_READS=A,B it reads A times from descriptor 3 and B
// times from descriptor 4, in turns, until its standard input ends.
func init() {
	var a, b int
	if n, _ := fmt.Sscanf(os.Getenv("SAMPLE_TEST_READS"), "%d,%d", &a, &b); n != 2 {
		return
	}
	fmt.Println("ready")
	go func() {
		buffer := make([]byte, 1<<16)
		first, second := os.NewFile(3, "first"), os.NewFile(4, "second")
		for {
			for range a {
				_, _ = first.Read(buffer)
			}
			for range b {
				_, _ = second.Read(buffer)
			}
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// startReader starts the process that reads from two files. The process ends when its standard input is closed.
func startReader(t *testing.T, a, b int, files ...*os.File) (cmd *exec.Cmd, in io.Closer) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("SAMPLE_TEST_READS=%d,%d", a, b))
	cmd.ExtraFiles = files
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the reader did not start: %q, %v", line, err)
	}
	return cmd, in
}

// samplers are the ways to sample, with their constructors.
var samplers = map[string]func() (sampler, error){"bpf": newBPFSampler, "registers": newRegisterSampler}

// TestSampler: the samples of a process divide its CPU time by its reads. Each sample stands for a millisecond of CPU time.
func TestSampler(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("samples another process: needs root")
	}
	for name, open := range samplers {
		t.Run(name, func(t *testing.T) {
			s, err := open()
			if err != nil {
				t.Skipf("this kernel refuses it: %v", err)
			}
			defer s.Close()
			testSampler(t, s, t.TempDir())
		})
	}
}

// TestSamplerBtrfs: BPF counts the reads of files on btrfs, for which statx(2) returns the device of the subvolume.
func TestSamplerBtrfs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts a file system: needs root")
	}
	s, err := newBPFSampler()
	if err != nil {
		t.Skipf("this kernel refuses it: %v", err)
	}
	defer s.Close()
	testSampler(t, s, mountBtrfs(t))
}

// mountBtrfs mounts a new btrfs and returns a subvolume of it.
func mountBtrfs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	image, mount := dir+"/image", dir+"/mount"
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 200<<20), os.Mkdir(mount, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.btrfs", "-q", image}, {"mount", "-o", "loop", image, mount}, {"btrfs", "subvolume", "create", mount + "/logs"}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no btrfs here: %s: %v: %s", args, err, out)
		}
		if args[0] == "mount" {
			t.Cleanup(func() {
				if err := unix.Unmount(mount, 0); err != nil {
					t.Error(err)
				}
			})
		}
	}
	return mount + "/logs"
}

func testSampler(t *testing.T, s sampler, dir string) {
	var files []*os.File
	for _, name := range []string{"first", "second"} {
		f, err := os.Create(dir + "/" + name)
		if err == nil {
			err = f.Truncate(1 << 40) // reads of the hole take time, and do not end
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	reader, _ := startReader(t, 3, 1, files...)
	pid := reader.Process.Pid
	open := &openFiles{known: map[string]openFile{}}
	var keys []fileKey
	for i, f := range files {
		file := inspect(pid, strconv.Itoa(3+i), f.Name())
		mountDevices{}.resolve(pid, &file)
		file.use, file.ok = fileUse{id, ledger.Log, ledger.Log}, true
		open.known[strconv.Itoa(3+i)] = file
		keys = append(keys, file.key)
	}
	if err := s.attach(pid); err != nil {
		t.Fatal(err)
	}
	if err := s.watch(pid, open); err != nil {
		t.Fatal(err)
	}
	start, err := cpuTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	var c counts
	var first, second, used float64
	for end := time.Now().Add(time.Minute); first+second < 1000 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		if err := s.attach(pid); err != nil {
			t.Fatal(err)
		}
		if c, err = s.read(pid, time.Now()); err != nil {
			t.Fatal(err)
		}
		now, err := cpuTime(pid)
		if err != nil {
			t.Fatal(err)
		}
		first, second, used = c.files[keys[0]].sum(), c.files[keys[1]].sum(), (now - start).Seconds()
	}
	all := float64(c.user+c.calls) + c.rest.sum() + first + second
	if first+second < 1000 || math.Abs(first/(first+second)-0.75) > 0.1 {
		t.Errorf("reads of 3 to 1 have %v and %v samples", first, second)
	}
	if ratio := all / used / 1000; ratio < 0.5 || ratio > 1.5 {
		t.Errorf("%v s of CPU time have %v samples, want one in a millisecond", used, all)
	}
	if err := s.watch(pid, &openFiles{}); err != nil {
		t.Fatal(err)
	}
	if c, err := s.read(pid, time.Now()); err != nil || len(c.files) != 0 {
		t.Errorf("after the end of the watch: %v, %v", c, err)
	}
	s.detach(pid)
}

func (io ioCount) sum() float64 { return float64(io.read + io.write) }

func TestCPUTime(t *testing.T) {
	before, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var usage unix.Rusage
	for start := time.Now(); time.Since(start) < 20*time.Millisecond; {
	}
	after, err := cpuTime(os.Getpid())
	if err2 := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	all := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	if after <= before || after > all+time.Millisecond || after < all-100*time.Millisecond {
		t.Errorf("got %v, then %v; getrusage has %v", before, after, all)
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if got, err := cpuTime(cmd.Process.Pid); !hasGone(err) {
		t.Errorf("ended process: got %v, %v", got, err)
	}
}

// TestUsed: the CPU time of the helpers grows without a reading, and a reading does not change it.
func TestUsed(t *testing.T) {
	pid := os.Getpid()
	s := &Source{helpers: map[int]*account{pid: {process: &process{Helper: Helper{PID: pid, Kind: ledger.Log, Container: strings.Repeat("a", 64)}}}}}
	var book ledger.Book
	read := func() {
		if err := s.measureAll(&book, &cycle{now: time.Now(), serves: map[string]bool{}}); err != nil {
			t.Fatal(err)
		}
	}
	used := func() time.Duration {
		d, hasEnded := s.Used()
		if hasEnded {
			t.Fatal("this process has ended")
		}
		return d
	}
	own := func() time.Duration {
		d, err := cpuTime(pid)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if got := used(); got != 0 {
		t.Errorf("before the first reading: got %v", got)
	}
	read()
	if got := s.Booked(); got <= 0 || got > own() {
		t.Errorf("after the first reading, %v are booked of %v", got, own())
	}
	start := own()
	before := used()
	for own()-start < 20*time.Millisecond {
	}
	grown := used()
	read()
	after, span := used(), own()-start
	if grown-before < 10*time.Millisecond || after < grown || after-before > span {
		t.Errorf("got %v, then %v, after a reading %v", before, grown, after)
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	s.helpers[cmd.Process.Pid] = &account{process: &process{Helper: Helper{PID: cmd.Process.Pid}}}
	if _, hasEnded := s.Used(); !hasEnded {
		t.Error("an ended helper was not found")
	}
}

// TestForeignNames: a program of another user with the name of a helper is no helper, nor is a program of root whose file has
// another name.
func TestForeignNames(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("starts a process of another user: needs root")
	}
	here := nodeproc.Own("/proc")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/dev/shm", "candor-sample-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"dockerd", "k3s"} {
		if err := os.WriteFile(filepath.Join(dir, program), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("k3s", dir+"/containerd"); err != nil {
		t.Fatal(err)
	}
	start := func(program string, user uint32) int {
		cmd := exec.Command(filepath.Join(dir, program), "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd.Process.Pid
	}
	if h := helperOf(&here, start("dockerd", 0)); h == nil || h.Name != "dockerd" || h.Container != "" {
		t.Errorf("dockerd of root: got %v", h)
	}
	if h := helperOf(&here, start("dockerd", 65534)); h != nil {
		t.Errorf("dockerd of another user: got %v", h)
	}
	if h := helperOf(&here, start("containerd", 0)); h == nil || h.Name != "containerd" || (&process{Helper: *h}).hasChanged() {
		t.Errorf("containerd of k3s: got %v", h)
	}
	if h := helperOf(&here, start("k3s", 0)); h != nil {
		t.Errorf("k3s: got %v", h)
	}
	table := processTable{here: here, seen: map[int]int{}, helpers: map[int]*process{}, inits: map[int]initProcess{}}
	defer table.close()
	if _, _, err := table.scan(false); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range table.helpers {
		if text, _ := os.Readlink("/proc/" + strconv.Itoa(p.PID) + "/exe"); text == dir+"/dockerd" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("the scan found %d of these programs, want that of root", found)
	}
	isIdle := false
	for range 1000 { // other programs of this machine can start processes between two scans
		if _, isIdle, err = table.scan(false); isIdle || err != nil {
			break
		}
	}
	if !isIdle || err != nil {
		t.Errorf("of 1000 scans in a row, none is idle: %v", err)
	}
	pid := start("dockerd", 0)
	if _, isIdle, err = table.scan(false); isIdle || err != nil || table.helpers[pid] == nil {
		t.Errorf("the scan after idle scans does not find a new helper: idle %v, %v", isIdle, err)
	}
}
