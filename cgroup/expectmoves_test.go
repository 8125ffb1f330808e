package cgroup

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSelfMove: selfMove moves a process into its current group. It also finds the group in a cgroup
// namespace.
func TestSelfMove(t *testing.T) {
	for _, namespace := range []string{"shared", "own"} {
		t.Run(namespace, func(t *testing.T) {
			tr := tree(t)
			a, _ := two(t, tr)
			group(t, tr, "other", Settings{CPUs: a}, "sleep")
			p := start(t, "contained "+namespace)
			g := tr.Group("web")
			must(t, g.Create(Settings{CPUs: a}, p.pid()))
			result := filepath.Join(t.TempDir(), "result")
			fmt.Fprintln(p.in, result)
			eventually(t, "the child has moved", func() bool { _, err := os.Stat(result); return err == nil })
			text, err := os.ReadFile(result)
			if want := g.dir(tr.cpu); err != nil || string(text) != want {
				t.Errorf("got %q, %v; want %q", text, err, want)
			}
			if got, err := tr.PathOf(p.pid()); err != nil || got != tr.cpu.pathOf(g.dir(tr.cpu)) {
				t.Errorf("the child is in %q, %v", got, err)
			}
		})
	}
}

// contained runs in the child process of TestSelfMove. It reads the name of a file, calls selfMove twice, and
// writes the group that it found to the file.
func contained(namespace string) {
	fmt.Println("ready")
	var file string
	fmt.Scanln(&file)
	runtime.LockOSThread() // a cgroup namespace belongs to a thread
	var err error
	if namespace == "own" {
		err = unix.Unshare(unix.CLONE_NEWCGROUP)
	}
	var tr *Tree
	if err == nil {
		tr, err = Open(Options{ReadOnly: true})
	}
	for range 2 {
		if err == nil {
			err = tr.selfMove()
		}
	}
	if err != nil {
		writeResult(file, err.Error())
	} else {
		writeResult(file, tr.ownDir)
	}
	io.Copy(io.Discard, os.Stdin)
}

// writeResult writes a file atomically.
func writeResult(file, text string) {
	os.WriteFile(file+"~", []byte(text), 0o600)
	os.Rename(file+"~", file)
}

// TestSelfMoveUnlisted: selfMove writes nothing to a group that does not list this process, for any content
// of /proc/self/cgroup.
func TestSelfMoveUnlisted(t *testing.T) {
	root := t.TempDir()
	put(t, filepath.Join(root, "proc/1/mountinfo"), pure)
	put(t, filepath.Join(root, "sys/fs/cgroup/cgroup.controllers"), "cpuset cpu\n")
	put(t, filepath.Join(root, "proc", fmt.Sprint(os.Getpid()), "cgroup"), "0::/\n")
	top, own := filepath.Join(root, "sys/fs/cgroup"), filepath.Join(root, "sys/fs/cgroup/pod/app")
	put(t, filepath.Join(top, procsFile), "1\n2\n")
	put(t, filepath.Join(own, procsFile), fmt.Sprintf("1\n%d\n", os.Getpid()))
	open := func() *Tree {
		tr, err := Open(Options{Root: root, ReadOnly: true})
		must(t, err)
		return tr
	}
	if tr := open(); tr.selfMove() != nil || tr.ownDir != own {
		t.Errorf("found the group %q", tr.ownDir)
	}
	if text, err := os.ReadFile(filepath.Join(own, procsFile)); err != nil || !strings.HasPrefix(string(text), "0") {
		t.Errorf("the group of the process has %q, %v; want a write of 0", text, err)
	}
	put(t, filepath.Join(own, procsFile), "3\n")
	tr := open()
	for range 2 {
		if err := tr.selfMove(); err != errNotVisible || tr.ownDir != "" || !tr.isOwnHidden {
			t.Errorf("found the group %q, %v", tr.ownDir, err)
		}
	}
	for dir, want := range map[string]string{top: "1\n2\n", own: "3\n"} {
		if text, err := os.ReadFile(filepath.Join(dir, procsFile)); err != nil || string(text) != want {
			t.Errorf("%s changed to %q, %v", dir, text, err)
		}
	}
}

// TestWarmMoves: while a warm-up runs, WarmMoves only prolongs it. Afterwards WarmMoves starts another.
func TestWarmMoves(t *testing.T) {
	tr := tree(t)
	tr.isWarming.Store(true)
	if tr.WarmMoves() {
		t.Error("a second warm-up started")
	}
	if until := time.Unix(0, tr.warmUntil.Load()); until.Before(time.Now()) {
		t.Errorf("the running warm-up ends at %v, before now", until)
	}
	tr.isWarming.Store(false)
	for range 2 {
		if !tr.WarmMoves() {
			t.Error("no new warm-up after the end of the last")
		}
		eventually(t, "the move ends", func() bool { return !tr.isWarming.Load() })
	}
	if !isMember(tr.ownDir) {
		t.Errorf("this process is not in %q", tr.ownDir)
	}
}

// BenchmarkEnter measures the move of a process in three cases: after a pause, after a pause with ExpectMoves
// 15 ms before the move, and soon after another move.
//
//	go test ./cgroup -run '^$' -bench Enter -benchtime 30x
func BenchmarkEnter(b *testing.B) {
	tr := tree(b)
	one, _ := two(b, tr)
	g, pid := group(b, tr, "web", Settings{CPUs: one}, "sleep")
	for _, when := range []struct {
		name   string
		before func()
	}{
		{"alone", func() { time.Sleep(100 * time.Millisecond) }},
		{"expected", func() { time.Sleep(100 * time.Millisecond); tr.WarmMoves(); time.Sleep(15 * time.Millisecond) }},
		{"again", func() {}},
	} {
		b.Run(when.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				when.before()
				b.StartTimer()
				must(b, g.Enter(pid))
			}
		})
	}
}
