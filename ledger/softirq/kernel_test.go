//go:build amd64 || arm64

package softirq

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/ledger"
)

// The test binary is also the program of the containers: with SOFTIRQ_TEST it computes, sends or receives until it is killed.
func init() {
	words := strings.Fields(os.Getenv("SOFTIRQ_TEST"))
	if len(words) == 0 {
		return
	}
	runtime.LockOSThread()
	var cpus unix.CPUSet
	cpu, _ := strconv.Atoi(words[1])
	cpus.Set(cpu)
	err := unix.SchedSetaffinity(0, &cpus)
	if err == nil {
		err = map[string]func(string) error{"compute": compute, "send": send, "flood": flood, "receive": receive, "tap": tap}[words[0]](words[2])
	}
	fmt.Println(err)
	os.Exit(1)
}

// compute reads the clock of its CPU time without a pause, and adds up the gaps in the first 8 bytes of a file, in nanoseconds:
// the time of interrupts, which counts as its own. The clock stands still while another task runs.
func compute(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	shared, err := unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	lost, last := (*uint64)(unsafe.Pointer(&shared[0])), int64(0)
	for {
		var at unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
			return err
		}
		if gap := at.Nano() - last; last > 0 && gap >= 2000 {
			atomic.AddUint64(lost, uint64(gap))
		}
		last = at.Nano()
	}
}

// send sends at most 50,000 packets per second.
func send(address string) error { return sendBatches(address, time.Millisecond) }

func flood(address string) error { return sendBatches(address, 0) }

// sendBatches sends batches of 50 packets, and pauses after each batch.
func sendBatches(address string, pause time.Duration) error {
	c, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	packet := make([]byte, 200)
	for {
		for range 50 {
			_, _ = c.Write(packet) // the receiver may not be ready
		}
		time.Sleep(pause)
	}
}

// tap receives with 16 packet sockets beside the socket. Each packet takes some microseconds in the softirq then, much more
// than the interrupt that starts it.
func tap(address string) error {
	for range 16 {
		if _, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, unix.ETH_P_ALL<<8); err != nil {
			return err
		}
	}
	return receive(address)
}

func receive(address string) error {
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return err
	}
	c, err := net.ListenUDP("udp", at)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	packet := make([]byte, 2000)
	for {
		if _, err := c.Read(packet); err != nil {
			return err
		}
	}
}

// A packetLab has a sender and a receiver on CPU 0 in network namespaces of their own, and a program that computes on CPU 1. Each is
// in a cgroup of its own.
type packetLab struct {
	*testing.T
	tree       *cgroup.Tree
	names      [2]string // network namespaces of the sender and the receiver
	containers []Container
	lost       *uint64 // time that interrupts take from the program that computes, in nanoseconds
}

const (
	senderID, receiverID, computerID = "sender", "receiver", "computer"
	receiverAddress                  = "10.213.77.2:5201"
)

// newPacketLab starts the programs; The arguments are send or flood, and receive or tap.
func newPacketLab(t *testing.T, sender, receiver string) *packetLab {
	if os.Geteuid() != 0 || runtime.NumCPU() < 2 {
		t.Skip("creates network namespaces and cgroups: needs root and 2 CPUs")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs the program ip of iproute2")
	}
	tree, err := cgroup.Open(cgroup.Options{Parent: fmt.Sprintf("/candor-softirq-%d", os.Getpid()), Driver: cgroup.Cgroupfs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Remove(); err != nil {
			t.Error(err)
		}
		tree.Close()
	})
	l := &packetLab{T: t, tree: tree}
	l.connect()
	file := filepath.Join(t.TempDir(), "lost")
	if err := os.WriteFile(file, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	l.start(receiverID, l.names[1], receiver+" 0 "+receiverAddress)
	l.start(senderID, l.names[0], sender+" 0 "+receiverAddress)
	l.start(computerID, "", "compute 1 "+file)
	l.lost = l.share(file)
	return l
}

// share maps the counter in a file.
func (l *packetLab) share(file string) *uint64 {
	l.Helper()
	f, err := os.Open(file)
	if err != nil {
		l.Fatal(err)
	}
	defer f.Close()
	shared, err := unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = unix.Munmap(shared) })
	return (*uint64)(unsafe.Pointer(&shared[0]))
}

func (l *packetLab) ip(args ...string) {
	l.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		l.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// connect creates the network namespaces and a veth pair between them.
func (l *packetLab) connect() {
	l.Helper()
	for i, name := range []string{"s", "r"} {
		name = fmt.Sprintf("candor-softirq-%d%s", os.Getpid(), name)
		l.ip("netns", "add", name)
		l.Cleanup(func() { l.ip("netns", "del", name) })
		l.names[i] = name
	}
	l.ip("link", "add", "veth0", "netns", l.names[0], "type", "veth", "peer", "name", "veth1", "netns", l.names[1])
	for i, name := range l.names {
		device := fmt.Sprintf("veth%d", i)
		l.ip("-n", name, "addr", "add", fmt.Sprintf("10.213.77.%d/24", i+1), "dev", device)
		l.ip("-n", name, "link", "set", device, "up")
	}
}

// steer sets the CPUs that process the packets of the receiver, as a mask: RPS. 0 is the CPU of the sender.
func (l *packetLab) steer(mask int) {
	l.Helper()
	l.ip("netns", "exec", l.names[1], "sh", "-c", fmt.Sprintf("echo %x > /sys/class/net/veth1/queues/rx-0/rps_cpus", mask))
}

// start starts a program in a cgroup, and in a network namespace unless it is "".
func (l *packetLab) start(id, namespace, program string) {
	l.Helper()
	words := []string{"/proc/self/exe"}
	if namespace != "" {
		self, err := os.Executable()
		if err != nil {
			l.Fatal(err)
		}
		words = []string{"ip", "netns", "exec", namespace, self}
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), "SOFTIRQ_TEST="+program, "GOMAXPROCS=2")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		l.Fatal(err)
	}
	group := l.tree.Group(id)
	l.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if err := group.End(); err != nil {
			l.Error(err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		l.Fatalf("%s did not start: %q, %v", program, line, err)
	}
	cpus, _, err := l.tree.Effective()
	if err == nil {
		err = group.Create(cgroup.Settings{CPUs: cpus}, cmd.Process.Pid)
	}
	if err != nil {
		l.Fatal(err)
	}
	c := Container{ID: id}
	if c.Groups, err = l.tree.GroupIDs(l.path(id)); err != nil {
		l.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid), &st); err != nil {
		l.Fatal(err)
	}
	c.Namespaces = []uint32{uint32(st.Ino)}
	l.containers = append(l.containers, c)
}

func (l *packetLab) path(id string) string {
	l.Helper()
	path, err := cgroup.EnginePath(l.tree.OCIPath(id))
	if err != nil {
		l.Fatal(err)
	}
	return path
}

// open starts the measurement.
func (l *packetLab) open(budget uint64) *Source {
	l.Helper()
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &st); err != nil {
		l.Fatal(err)
	}
	s, err := Open(Options{
		IsUnified: l.tree.Version() == 2, Host: uint32(st.Ino), budget: budget,
		Find: func() ([]Container, error) { return l.containers, nil },
	})
	if errors.Is(err, unix.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		l.Skipf("this kernel refuses it: %v", err)
	}
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { s.Close() })
	return s
}

// A window holds the growth of values in windows of time.
type window struct {
	used, lost               float64 // CPU time of the program that computes, and its part in interrupts, in seconds
	charged, credited        time.Duration
	uncredited, unattributed time.Duration
	packets, softirqs        uint64
	length                   time.Duration
}

// measure adds the growth during a time to a window.
func (l *packetLab) measure(s *Source, book *ledger.Book, w *window, during time.Duration) {
	l.Helper()
	read := func(sign float64) {
		if err := s.Read(book); err != nil {
			l.Fatal(err)
		}
		usage, err := l.tree.ReadUsage(l.path(computerID))
		if err != nil {
			l.Fatal(err)
		}
		w.used += sign * usage.CPU.Seconds()
		w.lost += sign * float64(atomic.LoadUint64(l.lost)) / 1e9
		n := time.Duration(sign)
		w.charged += n * book.Charged(receiverID)
		w.credited += n * book.Credited(computerID)
		w.uncredited += n * uncredited(book)
		w.unattributed += n * book.Unattributed()[Daemon]
		w.packets += uint64(int64(sign)) * s.counters.packets
		w.softirqs += uint64(int64(sign)) * s.counters.softirqs
	}
	read(-1)
	start := time.Now()
	time.Sleep(during) // the length of the window
	read(1)
	w.length += time.Since(start)
}

func (w *window) String() string {
	return fmt.Sprintf("%v: computer %.3f s, charged %v, credited %v, not credited %v, unattributed %v, %d packets, %d softirqs",
		w.length.Round(time.Millisecond), w.used, w.charged, w.credited, w.uncredited, w.unattributed, w.packets, w.softirqs)
}

// TestPackets: a program that computes on the CPU of the packets loses as much CPU time as the ledger credits. The windows alternate
// between packets on its CPU and on the CPU of the sender, so that other interrupts have no influence.
func TestPackets(t *testing.T) {
	l := newPacketLab(t, "send", "tap")
	s := l.open(1 << 40)
	if s.isFree {
		t.Skip("this kernel counts the time of softirqs as no task's")
	}
	var book ledger.Book
	var here, there window
	for range 10 {
		l.steer(0)
		l.measure(s, &book, &there, 250*time.Millisecond)
		l.steer(2)
		l.measure(s, &book, &here, 250*time.Millisecond)
	}
	t.Logf("packets on the CPU of the sender: %v", &there)
	t.Logf("packets on the CPU of the computer: %v", &here)
	lost, credited := here.lost/here.used-there.lost/there.used, here.credited.Seconds()/here.used
	t.Logf("the computer lost %.1f %% of its CPU time, %.1f %% are credited: ratio %.2f", 100*lost, 100*credited, credited/lost)
	if lost < 0.02 || credited < lost*minShare || credited > lost*maxShare {
		t.Errorf("credited: got %.4f of the CPU time, want %.4f within factors %v to %v", credited, lost, minShare, maxShare)
	}
	if there.credited > here.credited/10 {
		t.Errorf("credited without packets on the CPU: %v, want less than a tenth of %v", there.credited, here.credited)
	}
	if there.charged > here.charged/2 {
		t.Errorf("charged while the sender pays: %v, want less than half of %v", there.charged, here.charged)
	}
	if here.uncredited < 0 || here.uncredited > here.charged/2 {
		t.Errorf("charges are %v more than credits, want 0 to half of %v: the computer pays for most packets", here.uncredited, here.charged)
	}
}

// The credit is between these shares of the lost CPU time.
const (
	minShare = 0.35 // the interrupt that starts the softirq is not measured: 0.55 to 0.76 on an idle machine
	maxShare = 1.5  // a loaded machine has other interrupts, which differ between the windows
)

// TestSampling: with a small budget, a sample of the softirqs gives the same charge.
func TestSampling(t *testing.T) {
	l := newPacketLab(t, "send", "receive")
	l.steer(2)
	all, sampled := l.open(1<<40), l.open(1000)
	if all.isFree {
		t.Skip("this kernel counts the time of softirqs as no task's")
	}
	var allBook, sampledBook ledger.Book
	var a, b window
	for range 10 {
		l.measure(all, &allBook, &a, 200*time.Millisecond)
		l.measure(sampled, &sampledBook, &b, 200*time.Millisecond)
	}
	t.Logf("all softirqs: %v", &a)
	t.Logf("a sample:     %v", &b)
	if b.softirqs*3 > a.softirqs || b.softirqs == 0 || b.packets*2 < a.packets {
		t.Errorf("measured %d softirqs with %d packets, without sampling %d with %d", b.softirqs, b.packets, a.softirqs, a.packets)
	}
	if ratio := b.charged.Seconds() / a.charged.Seconds(); ratio < 0.5 || ratio > 1.6 {
		t.Errorf("charged: %v by a sample, %v without: ratio %.2f", b.charged, a.charged, ratio)
	}
}

// TestCost logs the cost of the programs in % of a CPU for docs/benchmarks/ledger.md. CANDOR_SOFTIRQ_COST is the time of a window.
func TestCost(t *testing.T) {
	during, err := time.ParseDuration(os.Getenv("CANDOR_SOFTIRQ_COST"))
	if err != nil {
		t.Skip("needs CANDOR_SOFTIRQ_COST=5s")
	}
	for _, sender := range []string{"send", "flood"} {
		t.Run(sender, func(t *testing.T) {
			l := newPacketLab(t, sender, "receive")
			l.steer(2)
			s := l.open(0)
			stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
			if err != nil {
				t.Fatal(err)
			}
			defer stats.Close()
			var book ledger.Book
			for range 3 {
				var w window
				before := l.programTime(s)
				l.measure(s, &book, &w, during)
				seconds := w.length.Seconds()
				t.Logf("%.0f packets/s, %.0f measured softirqs/s, programs %.2f %% of a CPU, charged %.2f %%, unattributed %.2f %%, owner known %.1f %%",
					float64(w.packets)/seconds, float64(w.softirqs)/seconds, 100*(l.programTime(s)-before).Seconds()/seconds,
					100*w.charged.Seconds()/seconds, 100*w.unattributed.Seconds()/seconds, 100*float64(w.charged)/float64(w.charged+w.unattributed))
			}
		})
	}
}

// programTime returns the run time of the BPF programs.
func (l *packetLab) programTime(s *Source) (sum time.Duration) {
	l.Helper()
	objects := &s.tracer.(*bpfTracer).objects
	for _, program := range []*ebpf.Program{objects.Enter, objects.Receive, objects.Leave} {
		stats, err := program.Stats()
		if err != nil {
			l.Fatal(err)
		}
		sum += stats.Runtime
	}
	return sum
}
