package scheduler

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/candor-project/candor/kube/cluster"
)

// Reports and profiles arrive in two ways: by the plugin's own informers, and by those of kube-scheduler, which can be ahead (hints.go). So
// an object is taken only if its version is newer than the known version. Two faults remain: a deleted object can arrive once more, late,
// and versions go back when the cluster is restored from a backup of etcd. The store of the plugin's own informer is eventually consistent, so
// an object that differs from it for a whole tick is taken from the store.

// reconcile corrects the known objects by the informers' stores, and forgets deleted objects.
func (s *shared) reconcile() {
	for _, name := range s.strayReports.find(s.cluster.Versions(), s.reports) {
		s.rehear(name)
	}
	for _, key := range s.strayProfiles.find(s.places.versions(), s.profiles) {
		s.places.forget(key)
		if obj, exists, err := s.profiles.GetByKey(key); err == nil && exists {
			s.places.take(obj)
		}
	}
	s.places.sweep()
	s.cluster.Sweep(func(name string) bool {
		_, err := s.nodes.Get(name)
		return err == nil
	})
}

// rehear takes the report of a node from the informer's store, regardless of its version.
func (s *shared) rehear(name string) {
	obj, exists, err := s.reports.GetByKey(name)
	if err != nil {
		return
	}
	s.cluster.AcceptAnyVersion(name)
	if exists {
		s.hear(obj)
	} else {
		s.cluster.NoReport(name, 0, cluster.Gone)
	}
}

// A stray finds objects whose known version differs from a store's version for two consecutive ticks.
type stray struct {
	versions map[string]uint64 // the known versions at the last tick, of those that differed
}

// find returns the keys of objects that differed at the last tick and do so now, while the known version stayed the same. Objects that are
// not known have version 0, and so have objects that are not in the store.
func (s *stray) find(known map[string]uint64, store cache.Store) (keys []string) {
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

// versionIn returns the version of an object in a store; 0: it is not there.
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
