package sample

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/internal/fileio"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/ledger"
)

// A fileKey identifies an open file of a process as the BPF program does: the fields are those of struct file_key.
type fileKey struct {
	Process uint32
	Device  uint32 // the kernel's encoding: major << 20 | minor
	Inode   uint64
}

// A fileUse holds the container of a file, and the kinds of helper work to which reads and writes of the file belong.
type fileUse struct {
	container string // "": a log whose container is not known
	read      ledger.Kind
	write     ledger.Kind
}

var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

func isContainerID(id string) bool { return containerID.MatchString(id) }

// containerFile returns the container of a FIFO or log by its path. The engines name the files by the container's ID:
//
//	/run/containerd/io.containerd.grpc.v1.cri/containers/ID/io/1/ID-stdout    FIFO of containerd CRI
//	/run/containerd/io.containerd.grpc.v1.cri/containers/ID/io/2/EXEC-stdout  FIFO of exec
//	/run/docker/containerd/ID/init-stdout, /run/docker/containerd/ID/EXEC-stdout
//	/var/lib/docker/containers/ID/ID-json.log
func containerFile(path string, isFIFO bool) (u fileUse, ok bool) {
	parts := strings.Split(path, "/")
	for _, part := range parts[:len(parts)-1] {
		if isContainerID(part) {
			u.container = part
			break
		}
	}
	if u.container == "" {
		return u, false
	}
	name := parts[len(parts)-1]
	if !isFIFO {
		u.read, u.write = ledger.Read, ledger.Log
		return u, strings.HasSuffix(name, ".log") || strings.Contains(name, ".log.")
	}
	owner, stream, _ := cutLast(name, "-")
	if stream != "stdout" && stream != "stderr" && stream != "stdin" {
		return u, false
	}
	u.read, u.write = ledger.Exec, ledger.Exec
	if owner == "init" || owner == u.container {
		u.read, u.write = ledger.Log, ledger.Log
	}
	return u, true
}

func cutLast(text, sep string) (before, after string, found bool) {
	at := strings.LastIndex(text, sep)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(sep):], true
}

// A podContainer names the log directory of a container in a pod: NAMESPACE_POD_UID/CONTAINER (the kubelet's
// BuildContainerLogsDirectory).
type podContainer struct {
	namespace, pod, uid, container string
}

func (p podContainer) logDirectory() string {
	return p.namespace + "_" + p.pod + "_" + p.uid + "/" + p.container
}

const maxConfig = 4 << 20 // maximum number of bytes to read from a bundle's config.json

// readPodContainer reads the pod of a container from the annotations that containerd writes to its bundle. It reads the bundle in
// the file system of the shim, because candor itself can run in a container.
func readPodContainer(shim int, bundle string) (podContainer, bool) {
	text, err := fileio.ReadInRoot(procDir(shim)+"/root", filepath.Join(bundle, "config.json"), maxConfig)
	if err != nil {
		return podContainer{}, false
	}
	return parsePodContainer(text)
}

func parsePodContainer(text []byte) (p podContainer, ok bool) {
	var config struct {
		Annotations map[string]string `json:"annotations"`
	}
	if json.Unmarshal(text, &config) != nil {
		return p, false
	}
	const prefix = "io.kubernetes.cri."
	p = podContainer{
		namespace: config.Annotations[prefix+"sandbox-namespace"], pod: config.Annotations[prefix+"sandbox-name"],
		uid: config.Annotations[prefix+"sandbox-uid"], container: config.Annotations[prefix+"container-name"],
	}
	return p, p.pod != "" && p.container != ""
}

// settlingUpdates is the number of updates that inspect each descriptor. While a helper starts, it opens and closes files, and the number
// of descriptors can stay the same. Later updates inspect the descriptors only if their number has changed.
const settlingUpdates = 5

// An openFiles finds the files of containers that a helper has open. It inspects a descriptor again if the link of the descriptor
// has changed. After a while it also inspects the unchanged descriptors of containers and logs, because a rotated log has the
// same link but another inode.
type openFiles struct {
	known   map[string]openFile // by descriptor
	used    map[fileKey]fileUse // result of uses; nil: not computed since the last change
	updates int                 // number of updates that inspected the descriptors
}

type openFile struct {
	link string
	key  fileKey
	mode uint16 // type of the file; 0: a socket or an anonymous file
	// mount is the ID of the mount that the file is in; 0: not known.
	mount uint64
	use   fileUse // valid if ok is true
	ok    bool    // the file belongs to a container, or is a log
}

// isSettled reports whether an update inspects the descriptors only if their number has changed.
func (o *openFiles) isSettled() bool { return o.updates >= settlingUpdates }

// update inspects the changed descriptors of a process. If again is true, it also inspects the unchanged descriptors of containers and
// logs. owners finds the containers of pipes and of the logs of pods. changed is false if update has inspected no descriptor.
func (o *openFiles) update(pid int, again bool, owners *owners) (changed bool, err error) {
	dirName := procDir(pid) + "/fd"
	info, err := os.Stat(dirName)
	if err != nil {
		return false, err
	}
	// The size of the directory is the number of descriptors since Linux 6.2, and 0 before.
	if size := info.Size(); size > 0 && int(size) == len(o.known) && !again && o.isSettled() {
		return false, nil
	}
	o.updates++
	dir, err := os.Open(dirName)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxDescriptors)
	if len(names) == 0 && err != nil {
		return false, err
	}
	next, devices := make(map[string]openFile, len(names)), mountDevices{}
	for _, name := range names {
		link, err := os.Readlink(dirName + "/" + name)
		if err != nil {
			continue // closed meanwhile
		}
		file, isKnown := o.known[name]
		if !isKnown || file.link != link || file.mode == 0 || again && file.ok { // mode 0: a socket, or closed during the last update
			file = inspect(pid, name, link)
		}
		wasOK := file.ok
		if file.use.container == "" { // a container can become known later
			file.use, file.ok = owners.use(&file)
		}
		if file.ok && !wasOK {
			devices.resolve(pid, &file)
		}
		next[name] = file
	}
	o.known, o.used = next, nil
	return true, nil
}

// uses returns the files that belong to a container, or are logs. The caller must not change the map.
func (o *openFiles) uses() map[fileKey]fileUse {
	if o.used != nil {
		return o.used
	}
	o.used = map[fileKey]fileUse{}
	for _, file := range o.known {
		if file.ok {
			o.used[file.key] = file.use
		}
	}
	return o.used
}

const maxDescriptors = 100_000

// owners finds the containers of files whose path does not name them.
type owners struct {
	logs      map[string]string // container ID by log directory
	pipes     map[uint64]string // container ID by the inode of a pipe
	isUnclear bool              // a log directory belongs to several containers, none or several of which run
}

// addLogs adds a log directory with its containers. After a restart of a container in its pod, the new container has the directory
// of the old container: a running container takes the directory from an ended container.
func (o *owners) addLogs(dir string, ids []string, isRunning map[string]bool) {
	isEnded := func(id string) bool { return !isRunning[id] }
	if running := slices.DeleteFunc(slices.Clone(ids), isEnded); len(running) > 0 {
		ids = running
	}
	o.logs[dir] = slices.Min(ids)
	o.isUnclear = o.isUnclear || len(ids) > 1
}

// inspect returns the key and the type of an open file, given the process, the number of its descriptor and the link of the
// descriptor.
func inspect(pid int, descriptor, link string) (file openFile) {
	file.link = link
	if _, isPipe := pipeInode(link); !isPipe && !strings.HasPrefix(link, "/") {
		return file
	}
	var st unix.Statx_t
	// The attributes in memory are enough, and with them the call does not wait for a file server.
	if unix.Statx(unix.AT_FDCWD, procDir(pid)+"/fd/"+descriptor, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_MNT_ID, &st) != nil {
		return file
	}
	file.key = fileKey{uint32(pid), st.Dev_major<<20 | st.Dev_minor, st.Ino}
	file.mode = st.Mode & unix.S_IFMT
	if st.Mask&unix.STATX_MNT_ID != 0 { // Linux 5.8
		file.mount = st.Mnt_id
	}
	return file
}

// mountDevices maps the IDs of mounts to their devices, so that an update reads the mount table at most once for each mount.
type mountDevices map[uint64]uint32

// resolve sets the device of a log to the device of the kernel's super block (s_dev), which the BPF program reads. For a regular file
// of btrfs or overlay, statx(2) returns another device: each subvolume of btrfs has its own. These file systems have no block
// device, so their major number is 0. For this number, resolve reads the mount table.
func (d mountDevices) resolve(pid int, file *openFile) {
	if file.mode != unix.S_IFREG || file.key.Device>>20 != 0 || file.mount == 0 {
		return
	}
	if known, exists := d[file.mount]; exists {
		file.key.Device = known
		return
	}
	line := strconv.FormatUint(file.mount, 10) + " "
	// After an error, the device of statx is the best answer.
	_ = procfs.EachMount(procDir(pid)+"/mountinfo", procfs.MaxHostMounts, []string{line}, func(m *mountinfo.Info) {
		if uint64(m.ID) == file.mount {
			file.key.Device = uint32(m.Major)<<20 | uint32(m.Minor)
		}
	})
	d[file.mount] = file.key.Device
}

// use returns the use of an open file; ok is false if the file is neither a container's nor a log.
func (o *owners) use(file *openFile) (u fileUse, ok bool) {
	switch file.mode {
	case unix.S_IFIFO:
		if inode, isPipe := pipeInode(file.link); isPipe {
			id := o.pipes[inode]
			return fileUse{id, ledger.Shim, ledger.Shim}, id != ""
		}
		return containerFile(file.link, true)
	case unix.S_IFREG:
		if u, ok := containerFile(file.link, false); ok {
			return u, ok
		}
		return o.podLog(file.link)
	}
	return u, false
}

// podLog returns the container of a log of a pod: DIRECTORY/NAMESPACE_POD_UID/CONTAINER/0.log. A log of an unknown container
// has an empty container.
func (o *owners) podLog(path string) (u fileUse, ok bool) {
	if !strings.HasSuffix(path, ".log") {
		return u, false
	}
	dir := filepath.Dir(path)
	key := filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
	return fileUse{o.logs[key], ledger.Read, ledger.Log}, true
}

// pipeInode parses the link of a descriptor to an anonymous pipe: pipe:[INODE].
func pipeInode(link string) (inode uint64, ok bool) {
	text, ok := strings.CutPrefix(link, "pipe:[")
	if !ok {
		return 0, false
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
	return inode, err == nil
}

// addPipes adds the pipes on the standard output and error of a container's first process, which the shim reads. A pipe in two
// containers has no owner, because a tenant can pass a descriptor to another container.
func (o *owners) addPipes(pid int, id string) {
	for _, descriptor := range []string{"1", "2"} {
		link, err := os.Readlink(procDir(pid) + "/fd/" + descriptor)
		if err != nil {
			continue
		}
		inode, ok := pipeInode(link)
		if !ok {
			continue
		}
		if other, exists := o.pipes[inode]; exists && other != id {
			o.pipes[inode] = ""
			continue
		}
		o.pipes[inode] = id
	}
}
