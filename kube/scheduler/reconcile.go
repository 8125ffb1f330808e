package scheduler

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/candor-project/candor/kube/cluster"
)

// Reports and profiles arrive in two ways: from the plugin's own informers, and from kube-scheduler's informers, which can be ahead
// (hints.go). So an object is stored only if its version is newer than the known version. Two faults remain: a late event can
// bring back a deleted object, and versions decrease when the cluster is restored from a backup of etcd. The stores of the
// plugin's own informers do not have these faults. So if a known object differs from the store at two consecutive ticks,
// reconcile replaces it by the object in the store.

// reconcile replaces known objects that differ from the informers' stores, and forgets deleted objects.
func (s *shared) reconcile() {
	for _, name := range s.staleReports.find(s.cluster.Versions(), s.reports) {
		s.reloadReport(name)
	}
	for _, key := range s.staleProfiles.find(s.sources.versions(), s.profiles) {
		s.sources.forget(key)
		if obj, exists, err := s.profiles.GetByKey(key); err == nil && exists {
			s.sources.store(obj)
		}
	}
	s.sources.sweep()
	s.cluster.Sweep(func(name string) bool {
		_, err := s.nodes.Get(name)
		return err == nil
	})
}

// reloadReport stores the report of a node from the informer's store, regardless of its version.
func (s *shared) reloadReport(name string) {
	obj, exists, err := s.reports.GetByKey(name)
	if err != nil {
		return
	}
	s.cluster.AcceptAnyVersion(name)
	if exists {
		s.storeReport(obj)
	} else {
		s.cluster.NoReport(name, 0, cluster.Gone)
	}
}

// A staleFinder finds objects whose known version differs from the version in a store for two consecutive ticks.
type staleFinder struct {
	versions map[string]uint64 // the known versions of the objects that differed at the last tick
}

// find returns the keys of the stale objects. An object is stale if its known version differs from the version in the store,
// already differed at the last tick, and has not changed since. The version of an object that is unknown, or not in the store, is
// 0.
func (s *staleFinder) find(known map[string]uint64, store cache.Store) (keys []string) {
	before := s.versions
	s.versions = map[string]uint64{}
	differs := func(key string, version uint64) {
		if last, differed := before[key]; differed && last == version {
			keys = append(keys, key)
		} else {
			s.versions[key] = version
		}
	}
	for key, version := range known {
		if version != versionIn(store, key) {
			differs(key, version)
		}
	}
	for _, key := range store.ListKeys() {
		if _, isKnown := known[key]; !isKnown {
			differs(key, 0)
		}
	}
	return keys
}

// versionIn returns the version of an object in a store, or 0 if the store does not have the object.
func versionIn(store cache.Store, key string) uint64 {
	obj, exists, err := store.GetByKey(key)
	if err != nil || !exists {
		return 0
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		return 0
	}
	return versionOf(object.GetResourceVersion())
}
