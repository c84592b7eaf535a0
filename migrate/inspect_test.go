// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks/multilock/shield"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// elected is an object with an election record.
func elected(record string) apitest.Object {
	annotations := apitest.Object{"control-plane.alpha.kubernetes.io/leader": record}
	return apitest.Object{"metadata": apitest.Object{"name": "lock", "uid": "u", "annotations": annotations}}
}

func TestAReportSaysWhatIsOdd(t *testing.T) {
	for name, tc := range map[string]struct {
		do       func(s *stage)
		problems []string
	}{
		"nothing there": {func(*stage) {}, nil},
		"a legacy lock from a backup on the way back": {func(s *stage) {
			s.server.Put(mapPath, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lock", Namespace: "ns", UID: "u"}})
			s.poses("a", "auto")
			s.lies("", "legacy")
		}, []string{"legacy pods wait at it for good"}},
		"the seal is gone": {func(s *stage) { s.lies("a", "sealed") }, []string{"sealed ConfigMap is gone"}},
		"a legacy leader after the seal": {func(s *stage) {
			s.joins("a")
			s.seals()
			s.cleans()
			s.runs("old")
			s.holds("old")
		}, []string{"legacy pod old/uid-old holds the ConfigMap, though the phase is clean"}},
		"a stranger's ConfigMap": {func(s *stage) {
			s.server.Put(mapPath, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lock", UID: "u"}, Data: map[string]string{"a": "b"}})
		}, []string{"it holds data"}},
		"client-go on the ConfigMap": {func(s *stage) {
			s.server.Put(mapPath, elected("no JSON"))
		}, []string{"configmap/lock: its election record cannot be read"}},
		"what may not be read": {func(s *stage) {
			s.joins("a")
			s.joins("b")
			s.denied = []string{"get /configmaps", "list /pods", "get /endpoints"}
		}, []string{`needs verb "get" on configmaps`, `needs verb "list" on pods`}},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(s *stage) {
				tc.do(s)
				said := strings.Join(s.report().Problems, "\n")
				for _, word := range tc.problems {
					if !strings.Contains(said, word) {
						s.T.Errorf("the problems are %q, without %q", said, word)
					}
				}
				if tc.problems == nil && said != "" {
					s.T.Errorf("the problems are %q, want none", said)
				}
			})
		})
	}
}

// TestTheOperatorsPodsAreFoundFromACandidateOrTheLegacyLeader, without a selector.
func TestTheOperatorsPodsAreFoundFromACandidateOrTheLegacyLeader(t *testing.T) {
	scenario(t, func(s *stage) {
		s.Migration = s.with("")
		if r := s.report(); r.Counted || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "give a selector") {
			s.T.Errorf("with nobody there: %+v", r)
		}
		yes := true
		by := func(kind, name string) []metav1.OwnerReference {
			return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: &yes}}
		}
		set := metav1.ObjectMeta{Name: "op-1", UID: "uid-op-1", OwnerReferences: by("Deployment", "op")}
		s.server.Put(setsPath+"op-1", &appsv1.ReplicaSet{ObjectMeta: set})
		s.server.Put("/apis/apps/v1/namespaces/ns/deployments/op", apitest.Object{
			"metadata": apitest.Object{"name": "op", "uid": "uid-op"},
			"spec":     apitest.Object{"selector": apitest.Object{"matchLabels": apitest.Object{"app": "op"}}},
		})
		owned := func(p *corev1.Pod) { p.OwnerReferences = by("ReplicaSet", "op-1") }
		s.runs("old", owned)
		s.holds("old")
		if r := s.report(); len(r.LegacyPods) != 1 || len(r.Problems) != 0 {
			s.T.Errorf("from the legacy leader: %+v", r)
		}
		s.vanishes("old")
		s.poses("a", "auto")
		s.runs("a", owned)
		if r := s.report(); !r.Counted || len(r.LegacyPods) != 0 || len(r.Problems) != 0 {
			s.T.Errorf("from a candidate: %+v", r)
		}
	})
}

// TestTheLeaseSaysWhichConfigMapItIsFor: then no caller need say it.
func TestTheLeaseSaysWhichConfigMapItIsFor(t *testing.T) {
	scenario(t, func(s *stage) {
		s.joins("a", func(c *shield.Config) { c.LegacyName = "old-lock" })
		if c := s.report().Legacy; c.Object != "configmap/old-lock" || c.Kind != ownerref.Shield {
			s.T.Errorf("the ConfigMap: %+v", c)
		}
		s.seals()
	})
}
