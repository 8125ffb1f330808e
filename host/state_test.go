package host

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// drawGrant draws a grant such as a node makes.
func drawGrant(t *rapid.T, name string) Grant {
	milliseconds := func(label string) time.Duration {
		return time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, label)) * time.Millisecond
	}
	process := func(label string) Process {
		return Process{rapid.IntRange(0, 1<<22).Draw(t, label), rapid.Uint64().Draw(t, label)}
	}
	var cpus cpuset.Set
	for _, cpu := range rapid.SliceOfN(rapid.IntRange(0, cpuset.Max-1), 1, 20).Draw(t, "cpus") {
		cpus.Add(cpu)
	}
	g := Grant{
		State:   rapid.SampledFrom([]State{Pending, Running, Held}).Draw(t, "state"),
		Creator: process("creator"), Main: process("main"),
		Since: milliseconds("since"), Deadline: milliseconds("deadline"),
		Loan: Loan{process("borrower"), milliseconds("loan")},
		Spec: Spec{
			Period:   time.Duration(rapid.Int64Range(1000, 1000000).Draw(t, "period")) * time.Microsecond,
			Burst:    drawBurst(t),
			Mems:     rapid.Bool().Draw(t, "mems"),
			View:     rapid.SampledFrom([]View{ViewFull, ViewAffinity}).Draw(t, "view"),
			OnResize: rapid.SampledFrom([]string{"none", "signal:HUP", "exec:echo \"<&>\""}).Draw(t, "on-resize"),
			Command:  strings.ToValidUTF8(rapid.String().Draw(t, "command"), "�"), // JSON is text
		},
	}
	g.Request = hybrid.Request{
		ID:        name,
		Class:     hybrid.Class(rapid.IntRange(0, 1).Draw(t, "class")),
		Policy:    hybrid.Policy(rapid.IntRange(0, 1).Draw(t, "policy")),
		Limit:     hybrid.Milli(rapid.Int64Range(0, int64(hybrid.MaxLimit)).Draw(t, "limit")),
		Guarantee: hybrid.Milli(rapid.Int64Range(-1, int64(hybrid.MaxLimit)).Draw(t, "guarantee")),
		Wish:      hybrid.Wish(rapid.IntRange(0, 4).Draw(t, "wish")),
		Immovable: rapid.Bool().Draw(t, "immovable"),
	}
	g.CPUs, g.Exclusive = cpus, cpus.Lowest(cpus.Count()-1)
	g.Fractions = []hybrid.Fraction{{CPU: cpus.Last(), Milli: hybrid.Milli(rapid.IntRange(1, 999).Draw(t, "fraction"))}}
	g.Quota = hybrid.Milli(rapid.Int64Range(0, int64(hybrid.MaxLimit)).Draw(t, "quota"))
	g.Weight = hybrid.Milli(rapid.Int64Range(1, 1<<20).Draw(t, "weight"))
	return g
}

func drawBurst(t *rapid.T) Burst {
	by := rapid.SampledFrom([]BurstBy{BurstTime, BurstKernel, BurstQuota, BurstAuto}).Draw(t, "burst by")
	if by != BurstTime {
		return Burst{By: by}
	}
	return Burst{Time: time.Duration(rapid.Int64Range(0, 1000000).Draw(t, "burst")) * time.Microsecond}
}

// textOf is the file of a state.
func textOf(s state) []byte { return (&savedState{state: s}).encode() }

// What is saved is what is loaded.
func TestStateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := state{Boot: "b"}
		for _, name := range []string{"web", "db-1", "log_2.x"}[:rapid.IntRange(0, 3).Draw(t, "count")] {
			g := drawGrant(t, name)
			s.Grants = append(s.Grants, &g)
		}
		got, err := decodeState(textOf(s))
		if err != nil {
			t.Fatalf("%v\n%s", err, textOf(s))
		}
		if !reflect.DeepEqual(got, s) {
			t.Fatalf("saved  %+v\nloaded %+v", s, got)
		}
	})
}

// Whatever comes, goes and changes: what is to be saved is the whole state, and is loaded as it was foreseen.
func TestMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last := new(savedState)
		var grants []*Grant
		for range rapid.IntRange(1, 8).Draw(t, "operations") {
			for _, name := range []string{"web", "db-1", "log_2.x", "a"} {
				switch i := slices.IndexFunc(grants, func(g *Grant) bool { return g.ID == name }); {
				case rapid.Bool().Draw(t, name+" stays"):
				case i < 0:
					g := drawGrant(t, name)
					grants = append(grants, &g)
				case rapid.Bool().Draw(t, name+" goes"):
					grants = slices.Delete(slices.Clone(grants), i, i+1)
				default:
					g := drawGrant(t, name)
					grants = slices.Clone(grants)
					grants[i] = &g
				}
			}
			for _, g := range grants {
				g.Command += rapid.SampledFrom([]string{"", "", "\xff\xfe", "�", `\ufffd`}).Draw(t, "no text")
			}
			next, isOther, err := last.next("b", grants)
			if err != nil {
				t.Skip(err) // no such grant is saved
			}
			text, want := next.encode(), textOf(state{Boot: "b", Grants: grants})
			if string(text) != string(want) {
				t.Fatalf("saved %s\nwant  %s", text, want)
			}
			if is := string(text) != string(last.encode()); is != isOther {
				t.Fatalf("another: %t, said to be: %t\nwas %s\nis  %s", is, isOther, last.encode(), text)
			}
			if read, err := decodeState(text); err != nil || !reflect.DeepEqual(read.Grants, next.Grants) && len(grants) > 0 {
				t.Fatalf("%v\nloaded   %+v\nforeseen %+v", err, read.Grants, next.Grants)
			}
			switch rapid.SampledFrom([]string{"saved", "read", "neither"}).Draw(t, "then") {
			case "saved":
				last = next
			case "read":
				read, err := decodeState(text)
				if err != nil {
					t.Fatal(err)
				}
				last = &savedState{state: read, text: text}
			}
		}
	})
}

// Grants that are the same in the file are equal, others are not.
func TestGrantEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrant(t, "web")
		same := g
		same.Fractions = slices.Clone(g.Fractions)
		if !g.equal(&same) {
			t.Fatalf("not equal to itself: %+v", g)
		}
		for _, other := range otherGrants(reflect.ValueOf(&g).Elem()) {
			same := bytes.Equal(compactJSON(newFileGrant(&other)), compactJSON(newFileGrant(&g)))
			if !same && g.equal(&other) {
				t.Fatalf("equal, and not the same in the file:\n%+v\n%+v", g, other)
			}
		}
	})
}

// otherGrants returns grants each of which differs in one number, text, switch or element.
func otherGrants(g reflect.Value) (others []Grant) {
	var visit func(reflect.Value)
	add := func() { others = append(others, g.Interface().(Grant)) }
	visit = func(v reflect.Value) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Field(i).CanSet() {
					visit(v.Field(i))
				}
			}
			return
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Slice:
			v.Set(reflect.Append(v.Slice3(0, v.Len(), v.Len()), reflect.Zero(v.Type().Elem())))
		default:
			switch n := v.Interface().(type) {
			case hybrid.Class, hybrid.Policy, hybrid.Wish:
				v.Set(reflect.ValueOf(1 - min(v.Convert(reflect.TypeFor[int]()).Int(), 1)).Convert(v.Type()))
			case time.Duration:
				v.SetInt(int64(n + time.Millisecond))
			case uint64:
				v.SetUint(n + 1)
			default:
				v.SetInt(v.Int() + 1)
			}
		}
		add()
		v.Set(was)
	}
	visit(g)
	for _, set := range []func(*Grant) *cpuset.Set{
		func(g *Grant) *cpuset.Set { return &g.CPUs }, func(g *Grant) *cpuset.Set { return &g.Exclusive },
	} {
		other := g.Interface().(Grant)
		if cpus := set(&other); cpus.Contains(1000) {
			cpus.Remove(1000)
		} else {
			cpus.Add(1000)
		}
		others = append(others, other)
	}
	return others
}

const goodState = `{"version":1,"boot":"b","grants":[{"name":"web","state":"running","creator":{"pid":1,"start":2},
	"main":{"pid":3,"start":4},"sinceMs":5,"request":{"class":"sensitive","policy":"strict","limit":1500,
	"topology":"prefer","periodUs":100000,"view":"full","onResize":"none","command":"x"},
	"cpus":"0-1","exclusive":"0","fractions":[{"cpu":1,"milli":500}],"quota":1500,"weight":1000}]}`

// What no Candor writes is refused, in words that name the place.
func TestDecodeStateRefuses(t *testing.T) {
	if _, err := decodeState([]byte(goodState)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ old, new, want string }{
		{`"version":1`, `"version":0`, "version 0: want 1 to 2"},
		{`"version":1,`, ``, "version 0: want 1"},
		{`"version":1`, `"version":3`, "newer"},
		{`"version":1`, `"version":-1`, "version -1"},
		{`"version":1`, `"version":"1"`, "not a state"},
		{`"boot"`, `"boots"`, "unknown field"},
		{`}]}`, `}]}x`, "not a state"},
		{`}]}`, `}]}{}`, "not a state"},
		{`"web"`, `"../web"`, "letters"},
		{`"web"`, `""`, "letters"},
		{`"running"`, `"walking"`, "pending, running or held"},
		{`"sensitive"`, `"touchy"`, "sensitive"},
		{`"cpus":"0-1"`, `"cpus":"0-9999"`, "CPU"},
		{`"cpus":"0-1"`, `"cpus":"1"`, "exclusive CPUs 0 are not"},
		{`"cpu":1`, `"cpu":7`, "fraction"},
		{`"milli":500`, `"milli":1000`, "fraction"},
		{`"quota":1500`, `"quota":-1`, "quota"},
		{`"limit":1500`, `"limit":-5`, "limit"},
		{`"periodUs":100000`, `"periodUs":0`, "period"},
		{`"view":"full"`, `"view":"half"`, "view"},
		{`"onResize":"none"`, `"onResize":"signal:KILL"`, "on-resize"},
	} {
		text := strings.Replace(goodState, test.old, test.new, 1)
		if text == goodState {
			t.Fatalf("%q is not in the state", test.old)
		}
		_, err := decodeState([]byte(text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s -> %s: got %v, want %q", test.old, test.new, err, test.want)
		}
		if newer := strings.Contains(test.want, "newer"); errors.Is(err, errNewer) != newer {
			t.Errorf("%s: newer is %t", test.new, !newer)
		}
	}
	twice := strings.Replace(goodState, "}]}", "},"+goodState[strings.Index(goodState, `{"name"`):], 1)
	if _, err := decodeState([]byte(twice)); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("one name twice: %v", err)
	}
}

// Whatever is in the file: an error or a state that is saved as it was read.
func FuzzDecodeState(f *testing.F) {
	f.Add([]byte(goodState))
	f.Add([]byte(`{"version":1,"boot":"","grants":[]}`))
	f.Add([]byte(`{"version":3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeState(data)
		if err != nil {
			return
		}
		again, err := decodeState(textOf(s))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%v\nread  %+v\nagain %+v", err, s, again)
		}
	})
}

// What of on-resize can be meant.
func TestParseOnResize(t *testing.T) {
	for _, good := range []string{"none", "signal:HUP", "signal:SIGUSR1", "signal:usr2", "exec:echo hi"} {
		if err := CheckOnResize(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "None", "signal", "signal:", "signal:KILL", "signal:SIGSTOP", "signal:1", "signal:FOO", "exec:", "exec: ", "run:x"} {
		if err := CheckOnResize(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// A grant that has lost CPUs is saved as it was, so that it has them again when
// they return.
func TestWhole(t *testing.T) {
	saved := hybrid.Grant{CPUs: cpuset.Range(0, 3), Exclusive: cpuset.Range(0, 2), Fractions: []hybrid.Fraction{{CPU: 3, Milli: 500}}}
	for _, lost := range []cpuset.Set{cpuset.Of(), cpuset.Of(0), cpuset.Of(3), cpuset.Of(1, 3)} {
		now := saved
		now.CPUs, now.Exclusive, now.Lost = saved.CPUs.Minus(lost), saved.Exclusive.Minus(lost), lost
		if lost.Contains(3) {
			now.Fractions = nil
		}
		if got := whole(now, saved); !reflect.DeepEqual(got, saved) {
			t.Errorf("lost %v: %+v", lost, got)
		}
	}
}

// A pid that is used again is another process, and a zombie is none.
func TestAlive(t *testing.T) {
	self, err := processOf(os.Getpid())
	if err != nil || !self.Alive() {
		t.Errorf("%+v, %v", self, err)
	}
	for _, gone := range []Process{{}, {PID: -1}, {self.PID, self.Start + 1}, {1 << 30, self.Start}, dead(t)} {
		if gone.Alive() {
			t.Errorf("%+v is said to live", gone)
		}
	}
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), "HOST_TEST_ROLE=none")
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	zombie, err := processOf(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 1)) // the end
	for begin := time.Now(); zombie.Alive(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("a zombie is said to live")
		}
	}
	child.Wait()
}

func TestReleaseAtLeast(t *testing.T) {
	for release, want := range map[string]bool{"6.2.0": true, "6.1.0-56-cloud-amd64": false, "5.15": false, "7.0-rc1": true, "6.18.44-fc": true, "": false, "x.y": false} {
		if releaseAtLeast(release, 6, 2) != want {
			t.Errorf("%q: %t", release, !want)
		}
	}
}

// What of /proc/stat counts as busy.
func TestParseBusy(t *testing.T) {
	const stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 400 500 60 70 8 0 0\ncpu17 10 0 0 0 0 0 0 0 0 0\nintr 5\n"
	busy, err := parseBusy(stat)
	if want := map[int]time.Duration{0: 60 * time.Millisecond, 17: 100 * time.Millisecond}; err != nil || !maps.Equal(busy, want) {
		t.Errorf("%v, %v", busy, err)
	}
	for _, bad := range []string{"cpux 1 2 3 4 5 6 7\n", "cpu0 1 x 3 4 5 6 7\n", "cpu99999 1 2 3 4 5 6 7\n"} {
		if _, err := parseBusy(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// Whose view is mounted over the list of online CPUs, if it is one of Candor's.
func TestViewIn(t *testing.T) {
	const rest = " rw - tmpfs tmpfs rw\n"
	for line, want := range map[string]string{
		"36 35 0:45 /candor/views/web/online /sys/devices/system/cpu/online": "web",
		"36 35 0:45 /views/web-1/online /sys/devices/system/cpu/online":      "web-1",
		"36 35 0:45 / /sys": "",
		"36 35 0:45 /sys/devices/system/cpu/online /sys/devices/system/cpu/online": "", // lxcfs
		"36 35 0:45 /candor/views/web/cpuinfo /proc/cpuinfo":                       "",
	} {
		if got := viewIn([]byte("1 2 0:3 / /" + rest + line + rest)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
