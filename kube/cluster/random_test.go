package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/candor-project/candor/hybrid"
	"github.com/candor-project/candor/kube/nodecpu"
)

// A world is a cluster with a single node, the node as its agent has it, and the pods of the node.
type world struct {
	t       *testing.T
	rt      *rapid.T
	c       *Cluster
	agent   *hybrid.Node
	last    *hybrid.Node // the last report
	version uint64
	made    map[string]bool // containers that the agent has created
	live    map[string]*Pod // pods that are reserved or bound, and not deleted
	held    map[string]*Pod // pods with held CPUs
	next    int
}

// TestRandomEvents applies random events in random order. The cluster's node always has all containers of its
// report and all reservations, and queries change nothing. After the deletion of all pods, only the report
// remains.
func TestRandomEvents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{t: t, rt: rt, c: New(patience), agent: newNode(t, "numa:2 core:2 pu:2", hybrid.Options{MinShared: 300}),
			made: map[string]bool{}, live: map[string]*Pod{}, held: map[string]*Pod{}}
		w.report()
		rt.Repeat(map[string]func(*rapid.T){
			"reserve": w.reserve, "bind": w.bind, "create": w.create, "end": w.end, "forget": w.forget, "await": w.await,
			"report": func(*rapid.T) { w.report() }, "ask": w.query, "": w.check,
		})
		for uid := range w.live {
			w.c.Forget(uid)
		}
		for uid := range w.held {
			w.c.Forget(uid)
		}
		if n := w.c.lookup("n"); n.current != n.base || !reflect.DeepEqual(n.current.Grants(), w.last.Grants()) {
			rt.Fatalf("got grants %v after all pods are deleted, want those of the report: %v", n.current.Grants(), w.last.Grants())
		}
	})
}

func (w *world) report() {
	w.version++
	w.last = reportOf(w.t, w.agent)
	w.c.Report("n", w.version, reportOf(w.t, w.agent), start)
}

func (w *world) draw(rt *rapid.T) *Pod {
	w.next++
	var containers []Container
	for i := range rapid.IntRange(1, 3).Draw(rt, "containers") {
		limit := hybrid.Milli(rapid.IntRange(1, 30).Draw(rt, "limit")) * 100
		c := flexible(fmt.Sprint("c", i), limit)
		if rapid.Bool().Draw(rt, "sensitive") {
			c = sensitive(c.Name, limit)
			c.Request.Policy = hybrid.Policy(rapid.IntRange(0, 1).Draw(rt, "policy"))
			c.Request.Topology = hybrid.TopologyPolicy(rapid.IntRange(0, 4).Draw(rt, "topology"))
		}
		c.RunsToCompletion = i == 0 && rapid.IntRange(0, 3).Draw(rt, "init container") == 0
		containers = append(containers, c)
	}
	return pod(w.t, fmt.Sprint("p", w.next), containers...)
}

func (w *world) reserve(rt *rapid.T) {
	p := w.draw(rt)
	fits := w.c.Fits("n", p)
	grants, refusal := w.c.Reserve("n", p, start)
	if (fits == nil) != (refusal == nil) || refusal == nil && len(grants) != len(p.lasting) {
		rt.Fatalf("Fits returns %v, Reserve %v with %v", fits, refusal, grants)
	}
	if refusal == nil {
		w.live[p.UID] = p
	}
}

func (w *world) bind(rt *rapid.T) {
	p := w.draw(rt)
	w.live[p.UID] = p
	w.c.Bound("n", p, start)
	w.c.Bound("n", p, start.Add(time.Second))
}

// await holds CPUs for a preempting pod, and reserves them if the pod fits.
func (w *world) await(rt *rapid.T) {
	p, leaves := w.draw(rt), w.any(rt)
	present := map[string]bool{}
	for uid := range w.live {
		present[uid] = leaves == nil || uid != leaves.UID
	}
	if w.c.HoldFor("n", p, present, start) == nil {
		return
	}
	w.held[p.UID] = p
	if w.c.HeldOn(p.UID) != "n" || w.c.HoldFor("n", p, present, start) != errAwaitingReport {
		rt.Fatal("no CPUs are held for a waiting pod")
	}
	fits := w.c.Fits("n", p)
	if _, refusal := w.c.Reserve("n", p, start); (fits == nil) != (refusal == nil) {
		rt.Fatalf("Fits returns %v, Reserve %v", fits, refusal)
	} else if refusal == nil {
		w.live[p.UID] = p
	} else if rapid.Bool().Draw(rt, "once more") {
		w.c.HoldFor("n", p, present, start)
	}
}

// create places a container of a pod on the agent's node, if it fits.
func (w *world) create(rt *rapid.T) {
	if p := w.any(rt); p != nil {
		r := rapid.SampledFrom(p.containers).Draw(rt, "container").Request
		if _, _, err := w.agent.Place(&r); err == nil {
			w.made[r.ID] = true
		}
	}
}

// end releases a container on the agent's node.
func (w *world) end(rt *rapid.T) {
	if len(w.made) == 0 {
		return
	}
	id := rapid.SampledFrom(keys(w.made)).Draw(rt, "ends")
	delete(w.made, id)
	plan, err := w.agent.PlanRelease(id)
	if err == nil {
		err = w.agent.Commit(plan)
	}
	if err != nil {
		rt.Fatal(err)
	}
}

func (w *world) forget(rt *rapid.T) {
	if p := w.any(rt); p != nil {
		delete(w.live, p.UID)
		w.c.Forget(p.UID)
	}
}

func (w *world) any(rt *rapid.T) *Pod {
	if len(w.live) == 0 {
		return nil
	}
	return w.live[rapid.SampledFrom(keys(w.live)).Draw(rt, "pod")]
}

func keys[V any](m map[string]V) []string {
	var all []string
	for key := range m {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// query runs each kind of query for a random pod. No query may change the node.
func (w *world) query(rt *rapid.T) {
	p := w.draw(rt)
	before := w.c.lookup("n").current.Grants()
	present := map[string]bool{}
	for uid := range w.live {
		present[uid] = true
	}
	now := w.c.Fits("n", p)
	w.c.Rank("n", p, Amounts{Memory: 1 << 30, FreeMemory: 1 << 20})
	trial := w.c.Trial("n")
	leaving := len(w.c.lookup("n").leaving) > 0
	if then := trial.Fits(p, present); !leaving && (now == nil) != (then == nil) {
		rt.Fatalf("Fits returns %v, a trial without changes %v", now, then)
	}
	if other := w.any(rt); other != nil {
		trial.Remove(other.UID)
		trial.Fits(p, present)
		trial.Add(other)
		if then := trial.Fits(p, present); !leaving && (now == nil) != (then == nil) {
			rt.Fatalf("Fits returns %v, a trial that removes and adds a pod %v", now, then)
		}
	}
	if after := w.c.lookup("n").current.Grants(); !reflect.DeepEqual(before, after) {
		rt.Fatalf("queries changed the grants from %v to %v", before, after)
	}
}

// check requires that the cluster's node has all containers of the last report and all reservations.
func (w *world) check(rt *rapid.T) {
	now := w.c.lookup("n").current
	for _, g := range w.last.Grants() {
		holder := nodecpu.HolderOf(g.ID)
		if _, ok := now.Grant(g.ID); !ok && !w.isInitContainer(holder) {
			rt.Fatalf("%s of the report is missing", g.ID)
		}
	}
	for uid, p := range w.live {
		r := w.c.lookup("n").pods[uid]
		for i := range p.lasting {
			if _, ok := now.Grant(p.lasting[i].Request.ID); !ok && (r == nil || !r.isBlocked) {
				rt.Fatalf("reserved container %s is missing", p.lasting[i].Request.ID)
			}
		}
	}
}

// isInitContainer reports whether a container releases its CPUs to later containers of its pod.
func (w *world) isInitContainer(h nodecpu.Holder) bool {
	p := w.live[h.Pod]
	return p != nil && slices.ContainsFunc(p.containers, func(c Container) bool { return c.Name == h.Container && c.RunsToCompletion })
}
