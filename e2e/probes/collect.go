package probes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Bundle lists the files that the probes need on a target machine without any runtime.
type Bundle struct {
	Files   map[string]string // path on the target -> file or directory on this machine
	Path    []string          // directories on the target for $PATH, besides the usual directories
	Skipped []string          // rows of probes that are not in the bundle, with the reason
}

// Collect builds the probes and gathers the runtimes of interpreted probes: the programs, their libraries and the modules that
// they load. The results go into dir. at is the path of the probes on the target.
func Collect(sources, dir, at string) (Bundle, error) {
	b := Bundle{Files: map[string]string{at: filepath.Join(dir, "probes")}}
	if err := os.Mkdir(b.Files[at], 0o755); err != nil {
		return b, err
	}
	for _, p := range All() {
		err := errors.New("not installed: " + p.Missing("", true))
		if p.Missing("", true) == "" {
			err = p.Make(sources, b.Files[at])
		}
		if gather := gatherers[p.Run[0]]; err == nil && gather != nil {
			err = gather(&b, dir, p.Run[0])
		} else if filepath.IsAbs(p.Run[0]) && err == nil {
			err = gatherPython(&b, dir, p.Run[0])
		} else if p.Run[0] == "sh" && err == nil {
			err = b.addLinked(p.Run[len(p.Run)-1])
		}
		if err != nil {
			b.Skipped = append(b.Skipped, fmt.Sprintf("%s: %v", p.Row, err))
		}
	}
	return b, nil
}

// gatherers maps a runtime to the function that adds the files of the runtime to a bundle.
var gatherers = map[string]func(b *Bundle, dir, program string) error{
	"java":    gatherJava,
	"node":    func(b *Bundle, _, program string) error { return b.addLinked(program) },
	"python3": gatherPython,
	"ruby":    gatherRuby,
}

// addLinked adds a program or a shared object with its libraries to the bundle.
func (b *Bundle) addLinked(program string) error {
	files, err := Linked(program)
	if err != nil {
		return err
	}
	for _, file := range files {
		b.Files[file] = file
	}
	if !strings.Contains(files[0], ".so") {
		b.Path = append(b.Path, filepath.Dir(files[0]))
	}
	return nil
}

// Linked returns the file of a program or a shared object, and the files of its libraries.
func Linked(program string) ([]string, error) {
	path := program
	var err error
	if !filepath.IsAbs(program) {
		if path, err = exec.LookPath(program); err != nil {
			return nil, err
		}
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, err
	}
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", path, err)
	}
	files := []string{path}
	for word := range strings.FieldsSeq(string(out)) {
		if filepath.IsAbs(word) {
			files = append(files, word)
		}
	}
	return files, nil
}

// gatherJava creates a small JVM with the installed jlink, and adds this JVM. The JVM has only the module java.base.
func gatherJava(b *Bundle, dir, _ string) error {
	jre := filepath.Join(dir, "jre")
	java, err := exec.LookPath("java")
	if err != nil {
		return err
	}
	if java, err = filepath.EvalSymlinks(java); err != nil {
		return err
	}
	jlink := filepath.Join(filepath.Dir(java), "jlink")
	cmd := exec.Command(jlink, "--add-modules", "java.base", "--strip-java-debug-attributes", "--no-header-files", "--no-man-pages", "--output", jre)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", jlink, err, out)
	}
	b.Files["/jre"] = jre
	b.Path = append(b.Path, "/jre/bin")
	for _, lib := range []string{"bin/java", "lib/server/libjvm.so"} {
		var linked Bundle
		linked.Files = map[string]string{}
		if err := linked.addLinked(filepath.Join(jre, lib)); err != nil {
			return err
		}
		for to, from := range linked.Files {
			if !strings.HasPrefix(to, jre) {
				b.Files[to] = from
			}
		}
	}
	return nil
}

// gatherPython adds a Python interpreter with the modules that it loads at its start.
func gatherPython(b *Bundle, _, python string) error {
	const list = `import os, sys, encodings
print(sys.executable, os.__file__, os.path.dirname(encodings.__file__), *(getattr(m, "__file__", None) or "" for m in sys.modules.values()), sep="\n")`
	out, err := exec.Command(python, "-c", list).Output()
	if err != nil {
		return fmt.Errorf("%s: %w", python, err)
	}
	files := strings.Fields(string(out))
	if err := b.addLinked(files[0]); err != nil {
		return err
	}
	// The probes run "python3". On this machine, python3 can be a link in a directory other than the interpreter's. Therefore the
	// bundle also has the interpreter under the name python3, in the interpreter's directory.
	b.Files[filepath.Join(filepath.Dir(files[0]), "python3")] = files[0]
	b.Path = append(b.Path, filepath.Dir(files[0]))
	for _, file := range files[1:] {
		b.Files[file] = file
	}
	return nil
}

// gatherRuby adds Ruby with the files that Ruby loads at its start.
func gatherRuby(b *Bundle, _, ruby string) error {
	out, err := exec.Command(ruby, "-r", "etc", "-e", "puts $LOADED_FEATURES").Output()
	if err != nil {
		return fmt.Errorf("%s: %w", ruby, err)
	}
	path, err := exec.LookPath(ruby)
	if err != nil {
		return err
	}
	for file := range strings.FieldsSeq(string(out)) {
		if filepath.IsAbs(file) {
			b.Files[file] = file
		}
	}
	b.Files[path] = path // path is a link to a program such as ruby3.1, which addLinked adds
	return b.addLinked(ruby)
}
