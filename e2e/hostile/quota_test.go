package hostile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestHostileParentQuota runs candor below a group with a quota of 1 CPU, as a slice with CPUQuota=100%.
func TestHostileParentQuota(t *testing.T) {
	l := newLab(t)
	slice := l.parent + ".slice"
	limit(t, slice, 1)
	l.move(slice + "/candor")
	before := readForest(t, slice)
	refused(t, "2 CPUs of 1", run(t, l.candor("run", "--cpu", "2", "--", "true")), "cgroup "+slice+" has a quota of 1 CPU", "raise that quota", "best-effort")
	refused(t, "1.5 CPUs of 1", run(t, l.candor("run", "--cpu", "1.5", "--", "true")), "group "+slice)
	before.same(t, "refused", readForest(t, slice))

	l.start([]string{"--cpu", "500m", "--name", "web"}, "idle")
	refused(t, "a sum of 1100m", run(t, l.candor("run", "--cpu", "600m", "--", "true")), "left: 500m")
	refused(t, "a resize to 2", run(t, l.candor("resize", "web", "--cpu", "2")), "group "+slice)
	got := run(t, l.candor("run", "--class", "flexible", "--", "true"))
	if got.code != 0 || strings.Count(got.errOut, "\n") != 1 {
		t.Errorf("a flexible program: exit %d\n%s", got.code, got.errOut)
	}
	contains(t, "a flexible program", got.errOut, "group "+slice, "quota 1 CPU")

	by := "imited to 1 CPU by " + slice
	contains(t, "inspect", l.ok("inspect", "web", "--during", "0"), by)
	contains(t, "map", l.ok("map", "--sample", "0"), by+": web.")
	contains(t, "map as SVG", l.ok("map", "--sample", "0", "-o", "svg"), by)
	for _, args := range [][]string{{"inspect", "web", "--during", "0", "-o", "json"}, {"map", "--sample", "0", "-o", "json"}} {
		var report struct {
			LimitedBy []struct {
				Group      string
				Limit      int `json:"limitMilli"`
				Containers []string
			}
		}
		if err := json.Unmarshal([]byte(l.ok(args...)), &report); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(report.LimitedBy); got != "[{"+slice+" 1000 [web]}]" {
			t.Errorf("%v: limited by %s", args, got)
		}
	}
}

func init() {
	roles["idle"] = func([]string) {
		fmt.Println("ready")
		time.Sleep(time.Hour)
	}
}
