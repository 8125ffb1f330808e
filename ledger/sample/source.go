package sample

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/candor-project/candor/internal/nodeproc"
	"github.com/candor-project/candor/ledger"
)

// A Source measures the helpers of this machine. It is not safe for concurrent use.
type Source struct {
	processes processTable
	sampler   sampler // nil: the work of shared helpers cannot be sampled
	Refusal   error   // reason why sampler is nil, or nil
	helpers   map[int]*account
	exits     exitRecorder      // nil: the CPU time of a helper between its last reading and its end is lost
	ending    []*account        // ended helpers whose last CPU time is not booked yet
	logs      map[string]string // log directories by container ID; "" if a container has none
	known     map[string]bool   // containers in the book
	changed   bool              // the set of containers has changed
	owners    *owners           // nil before the first Read
	booked    time.Duration     // CPU time of all helpers that Read has booked
	inspected time.Time         // time of the last inspection of all descriptors of daemons
	rescanned time.Time         // time of the last inspection of all processes
	scanned   time.Time         // time of the last scan
	// ScanInterval is the minimum time between two scans for new processes and descriptors. Between two scans, Read only reads the CPU
	// times and the samples of the known helpers.
	ScanInterval time.Duration
}

var _ ledger.Source = (*Source)(nil)

// An account is the measurement of a helper.
type account struct {
	*process
	time    time.Duration // CPU time of the helper at the last call of advance
	files   openFiles
	uses    map[fileKey]fileUse
	before  counts
	samples ledger.Samples // with decreasing weights
	served  []string       // IDs of the containers that the helper served in the last cycle
	sampled bool
	// attached reports that the last attach of the sampler succeeded.
	attached bool
	isRead   bool      // an earlier cycle has read the helper
	at       time.Time // time of the last cycle
	agedAt   time.Time // time of the last cycle that read the samples

	isWatched bool      // the recorder of ended processes watches the helper
	start     uint64    // start of a watched helper, in clock ticks since the boot
	endedAt   time.Time // time of the cycle that found the end of the helper

	inspected time.Time     // time of the last inspection of all descriptors
	unknown   uint64        // samples of writes to unknown files since the last inspection
	patience  time.Duration // time between two early inspections
}

// Times of the measurement.
const (
	inspectEvery = 10 * time.Second // all descriptors of daemons are inspected again
	rescanEvery  = time.Minute      // all processes, and the descriptors of shims, are inspected again
	// A daemon that writes to unknown files is inspected early, because a log can have been rotated: after maxUnknown samples of such
	// writes, and at least unknownEvery after the last inspection. If an early inspection finds no new file, the time until the next
	// early inspection doubles, up to inspectEvery.
	maxUnknown   = 10
	unknownEvery = 2 * time.Second
	memory       = 5 * time.Second // the weight of a sample falls to 1/e after this time
	// minSampledShare is the lowest CPU use, in CPUs, for which the shim of a pod is sampled. A shim without output uses less.
	minSampledShare = 0.001
)

// Open starts the measurement. Without the rights for BPF it samples registers. Without the rights for perf events it still
// measures the helpers that serve a single container, and the totals of the other helpers; Refusal has the reason then.
// Without the rights for BPF, the CPU time of a helper between its last reading and its end is lost.
func Open() *Source {
	s := &Source{
		processes: processTable{here: nodeproc.Own("/proc"), seen: map[int]int{}, helpers: map[int]*process{}, inits: map[int]initProcess{}},
		helpers:   map[int]*account{}, logs: map[string]string{}, known: map[string]bool{},
	}
	if exits, err := newExitRecorder(); err == nil {
		s.exits = exits
	}
	bpf, err := newBPFSampler()
	if err == nil {
		s.sampler = bpf
		return s
	}
	registers, err2 := newRegisterSampler()
	if err2 != nil {
		s.Refusal = fmt.Errorf("%w; %w", err, err2)
		return s
	}
	s.sampler = registers
	return s
}

// Close ends the measurement.
func (s *Source) Close() error {
	s.processes.close()
	var errs []error
	if s.exits != nil {
		errs = append(errs, s.exits.Close())
	}
	if s.sampler != nil {
		errs = append(errs, s.sampler.Close())
	}
	return errors.Join(errs...)
}

// Method returns the method that divides the CPU time of shared helpers.
func (s *Source) Method() ledger.Method {
	if s.sampler == nil {
		return ledger.None
	}
	return s.sampler.method()
}

// Helpers returns the helpers, in the order of their process IDs.
func (s *Source) Helpers() []Helper {
	list := make([]Helper, 0, len(s.helpers))
	for _, pid := range slices.Sorted(maps.Keys(s.helpers)) {
		h := s.helpers[pid].Helper
		h.Serves = slices.Clone(s.helpers[pid].served)
		list = append(list, h)
	}
	return list
}

// Booked returns the CPU time of all helpers that Read has booked.
func (s *Source) Booked() time.Duration { return s.booked }

// Used returns the CPU time of all known helpers that Read has booked, or that a Read now would book. It reads only the CPU clocks of the
// helpers, so it costs much less than Read. hasEnded is true if a helper has ended and Read has not booked its last CPU time:
// then a new helper can have taken its place, and only Read finds it.
func (s *Source) Used() (used time.Duration, hasEnded bool) {
	used, hasEnded = s.booked, len(s.ending) > 0
	for pid, a := range s.helpers {
		total, err := cpuTime(pid)
		switch {
		case err != nil:
			hasEnded = true
		case a.isRead:
			used += total - a.time
		}
	}
	return used, hasEnded
}

// A cycle is a call of Read.
type cycle struct {
	now    time.Time
	again  bool // inspect all descriptors of daemons again
	rescan bool // inspect all descriptors of shims again
	known  bool // only read the known helpers: do not look for new descriptors
	isIdle bool // no process and no thread has started lately, so shims have no new descriptors
	isNew  bool // containers have started or ended before this cycle
	owners *owners
	serves map[string]bool // containers that a helper serves
}

// Read books the CPU time of the helpers since the previous call. The first call books the whole CPU time of shims, conmon and loggers,
// because they began with their containers. It books no earlier CPU time of the daemons, because that time belongs to unknown containers.
// Read adds the containers that helpers serve to the book, and removes a container that no helper serves any more. The last CPU
// time of a helper is booked after its end: until then, the container stays in the book.
func (s *Source) Read(book *ledger.Book) error {
	now := time.Now()
	if now.Sub(s.scanned) < s.ScanInterval {
		return s.measureAll(book, &cycle{now: now, known: true, serves: map[string]bool{}})
	}
	s.scanned = now
	again, rescan := now.Sub(s.inspected) >= inspectEvery, now.Sub(s.rescanned) >= rescanEvery
	if again {
		s.inspected = now
	}
	if rescan {
		s.rescanned = now
	}
	ended, isIdle, err := s.processes.scan(rescan)
	if err != nil {
		return fmt.Errorf("cannot list the processes: %w", err)
	}
	for _, p := range ended {
		s.end(p, now)
	}
	for pid, p := range s.processes.helpers {
		if s.helpers[pid] == nil {
			s.add(p, now)
		}
	}
	isNewOwner := false // a log has another owner than before
	if again || s.changed || s.owners != nil && s.owners.isUnclear {
		before := s.owners
		s.owners = s.findOwners()
		isNewOwner = before != nil && !maps.Equal(before.logs, s.owners.logs)
	}
	c := &cycle{now: now, isIdle: isIdle && !s.changed, isNew: s.changed, again: again || s.changed || isNewOwner, rescan: rescan || s.changed, owners: s.owners, serves: map[string]bool{}}
	err = s.measureAll(book, c)
	for id := range s.known {
		if !c.serves[id] {
			book.End(id)
			delete(s.logs, id)
		}
	}
	s.changed = !maps.Equal(c.serves, s.known)
	s.known = c.serves
	return err
}

// add starts to measure a new helper.
func (s *Source) add(p *process, now time.Time) {
	s.abandon(p.PID)
	a := &account{process: p, at: now, agedAt: now, samples: ledger.Samples{Files: map[ledger.Account]ledger.IO{}}}
	s.helpers[p.PID] = a
	s.watchExit(a)
}

// measureAll measures all helpers.
func (s *Source) measureAll(book *ledger.Book, c *cycle) error {
	var errs []error
	for _, pid := range slices.Sorted(maps.Keys(s.helpers)) {
		if err := s.measure(s.helpers[pid], book, c); err != nil && !hasGone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, s.settle(book, c))...)
}

// findOwners collects the log directories and the pipes of containers.
func (s *Source) findOwners() *owners {
	o := &owners{logs: map[string]string{}, pipes: map[uint64]string{}}
	bundles := map[string]int{} // maps the directory of a shim's bundles to the process ID of the shim
	for pid, a := range s.helpers {
		if a.bundles != "" {
			bundles[a.bundles] = pid
		}
	}
	isRunning, users := map[string]bool{}, map[string][]string{} // users has the containers of a log directory
	for pid, init := range s.processes.inits {
		o.addPipes(pid, init.container)
		isRunning[init.container] = true
	}
	for id := range s.known {
		if _, isRead := s.logs[id]; !isRead {
			s.logs[id] = readLogs(id, bundles)
		}
		if dir := s.logs[id]; dir != "" {
			users[dir] = append(users[dir], id)
		}
	}
	for dir, ids := range users {
		o.addLogs(dir, ids, isRunning)
	}
	return o
}

// readLogs returns the log directory of a container of a pod, or "".
func readLogs(id string, bundles map[string]int) string {
	for dir, shim := range bundles {
		if pod, ok := readPodContainer(shim, filepath.Join(dir, id)); ok {
			return pod.logDirectory()
		}
	}
	return ""
}

// measure books the CPU time of a helper since the last call, and adds the containers that the helper serves to c.serves.
func (s *Source) measure(a *account, book *ledger.Book, c *cycle) error {
	used, err := a.advance()
	if err != nil {
		return err
	}
	defer func() { a.at, a.isRead = c.now, true }()
	if !c.known {
		if a.served, err = a.serve(c); err != nil {
			a.time -= used // a later measurement, or the record of the helper's end, books it
			return err
		}
	}
	for _, id := range a.served {
		c.serves[id] = true
		book.Open(id)
	}
	if c.isNew { // samples from the start of a container (API work) do not describe the work for its output
		a.samples.Rest = ledger.IO{}
	}
	if used == 0 && a.isRead { // it has no new samples and no new threads either
		return nil
	}
	used = a.countable(used)
	if !a.isExact() && (!c.known || !a.sampled) {
		if err := s.sample(a, c, float64(used)/float64(max(c.now.Sub(a.at), 1))); err != nil {
			s.booked += used
			book.AddUnattributed(a.Name, used)
			return err
		}
	}
	return s.book(a, book, used, c.now)
}

// isExact reports whether the helper serves a single container, so that all of its CPU time belongs to this container.
func (a *account) isExact() bool {
	return len(a.served) > 0 && (a.Container != "" || a.isShim() && len(a.served) == 1)
}

// countable returns the part of the CPU time since the last reading that can be booked: the time of a daemon before its first reading
// belongs to unknown containers.
func (a *account) countable(used time.Duration) time.Duration {
	if !a.isRead && !a.isShim() && !a.isExact() {
		return 0
	}
	return used
}

// book books CPU time of a helper.
func (s *Source) book(a *account, book *ledger.Book, used time.Duration, now time.Time) error {
	s.booked += used
	if a.isExact() {
		return book.Charge(a.served[0], a.Kind, ledger.Exact, used)
	}
	return s.charge(a, book, used, now)
}

// advance returns the CPU time of the helper since the last call.
func (a *account) advance() (used time.Duration, err error) {
	total, err := cpuTime(a.PID)
	if err != nil {
		return 0, err
	}
	used = total - a.time
	a.time = total
	return used, nil
}

// serve returns the IDs of the containers that the helper serves, sorted.
func (a *account) serve(c *cycle) (ids []string, err error) {
	if a.Container != "" {
		return []string{a.Container}, nil
	}
	if c.isIdle && a.isShim() && a.files.isSettled() {
		return a.served, nil
	}
	isEarly := !a.isShim() && a.unknown >= maxUnknown && c.now.Sub(a.inspected) >= max(a.patience, unknownEvery)
	again := c.again && !a.isShim() || c.rescan || isEarly
	if again {
		a.inspected, a.unknown = c.now, 0
	}
	changed, err := a.files.update(a.PID, again, c.owners)
	if err != nil || !changed {
		return a.served, err
	}
	uses := a.files.uses()
	switch isSame := maps.Equal(uses, a.uses); {
	case !isSame:
		a.patience = unknownEvery
	case isEarly: // the helper writes to other files than logs
		a.patience = min(2*max(a.patience, unknownEvery), inspectEvery)
	}
	a.uses = uses
	for _, use := range a.uses {
		if use.container != "" {
			ids = append(ids, use.container)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// sample starts or continues to sample a helper that can serve several containers. It starts to sample the shim of a pod only if the shim
// uses at least minSampledShare CPUs. share is the CPU use of the helper, in CPUs.
func (s *Source) sample(a *account, c *cycle, share float64) error {
	if s.sampler == nil {
		return nil
	}
	if !a.sampled && a.isShim() && (!a.isRead || share < minSampledShare) {
		return nil
	}
	if !c.isIdle || !a.attached { // in an idle cycle, the attached events cover all threads
		a.sampled = true // true even if attach fails, so that end detaches the threads that are attached
		err := s.sampler.attach(a.PID)
		a.attached = err == nil
		if err != nil {
			return err
		}
	}
	return s.sampler.watch(a.PID, &a.files)
}

// charge divides the CPU time of a helper by its samples.
func (s *Source) charge(a *account, book *ledger.Book, used time.Duration, now time.Time) error {
	if !a.sampled {
		book.AddUnattributed(a.Name, used)
		return nil
	}
	counted, err := s.sampler.read(a.PID, now)
	if err != nil {
		book.AddUnattributed(a.Name, used)
		return err
	}
	a.age(math.Exp(-float64(now.Sub(a.agedAt)) / float64(memory)))
	a.agedAt = now
	a.add(counted)
	per, rest := ledger.Split(used, a.samples)
	var errs []error
	for to, part := range per {
		if err := book.Charge(to.Container, to.Kind, s.sampler.method(), part); err != nil && !errors.Is(err, ledger.ErrUnknown) {
			errs = append(errs, err)
		}
	}
	book.AddUnattributed(a.Name, rest)
	return errors.Join(errs...)
}

// age multiplies the weight of all samples, and forgets the samples of files that the helper has closed.
func (a *account) age(factor float64) {
	open := map[ledger.Account]bool{}
	for _, use := range a.uses {
		open[a.account(use, use.read)], open[a.account(use, use.write)] = true, true
	}
	s := &a.samples
	s.User, s.Calls, s.Rest = s.User*factor, s.Calls*factor, ledger.IO{Read: s.Rest.Read * factor, Write: s.Rest.Write * factor}
	for to, io := range s.Files {
		if !open[to] {
			delete(s.Files, to)
			continue
		}
		s.Files[to] = ledger.IO{Read: io.Read * factor, Write: io.Write * factor}
	}
}

// account returns the account for a kind of work on a file. The work of a shim is always of the kind Shim.
func (a *account) account(use fileUse, kind ledger.Kind) ledger.Account {
	if a.isShim() {
		kind = ledger.Shim
	}
	return ledger.Account{Container: use.container, Kind: kind}
}

// add adds the samples since the last call. Reads and writes of a log whose container is not known count as other calls.
func (a *account) add(c counts) {
	s, before := &a.samples, &a.before
	s.User += float64(c.user - before.user)
	s.Calls += float64(c.calls - before.calls)
	s.Rest.Read += float64(c.rest.read - before.rest.read)
	s.Rest.Write += float64(c.rest.write - before.rest.write)
	a.unknown += c.rest.write - before.rest.write
	for file, io := range c.files {
		was := before.files[file]
		if io.read < was.read || io.write < was.write {
			was = ioCount{} // the file was closed and opened again
		}
		use := a.uses[file]
		read, write := float64(io.read-was.read), float64(io.write-was.write)
		if use.container == "" {
			s.Calls += read + write
			continue
		}
		r, w := a.account(use, use.read), a.account(use, use.write)
		s.Files[r] = ledger.IO{Read: s.Files[r].Read + read, Write: s.Files[r].Write}
		s.Files[w] = ledger.IO{Read: s.Files[w].Read, Write: s.Files[w].Write + write}
	}
	a.before = c
}
