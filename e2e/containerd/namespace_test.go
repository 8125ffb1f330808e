package containerd

import (
	"fmt"
	"os"
	"testing"

	"github.com/candor-project/candor/cgroup"
)

// TestOwnCgroupNamespace: on cgroup v2 a pod that is not privileged has its own cgroup namespace, in which
// the paths of groups start with /.. . The plugin works there, too.
func TestOwnCgroupNamespace(t *testing.T) {
	path := fmt.Sprintf("/candor-ns-test-%d", os.Getpid())
	t.Cleanup(func() { // after the plugin's end
		if err := removeGroups(path); err != nil {
			t.Error(err)
		}
	})
	l := newEngine(t)
	tree, err := cgroup.Open(cgroup.Options{Parent: path, Driver: cgroup.Cgroupfs})
	if err == nil {
		err = tree.Group("plugin").Create(cgroup.Settings{CPUs: l.all()}, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	const inside = `for procs in /sys/fs/cgroup$0/cgroup.procs /sys/fs/cgroup/*$0/cgroup.procs; do
	[ ! -e "$procs" ] || echo $$ >"$procs" || exit; done
exec unshare --cgroup sh -c 'grep -q " /\.\." /proc/self/mountinfo && exec "$@"' sh "$@"`
	l.startPluginBy("sh", append([]string{"-c", inside, path + "/plugin", l.candor}, l.pluginArgs()...)...)
	log := must[*container](t)(must[*pod](t)(l.newPod(0, 0, nil)).run("log", 0, 0, false))
	all := log.cpus()
	if all.Count() < 2 {
		t.Skip("needs 2 CPUs")
	}
	web := must[*container](t)(must[*pod](t)(l.newPod(1000, 1000, sensitivePod)).run("web", 1000, 1000, true))
	web.sees()
	if has, left := web.cpus(), log.cpus(); has.Overlaps(&left) {
		t.Errorf("web has %v, log %v", has, left)
	}
}
