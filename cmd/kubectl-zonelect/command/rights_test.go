// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestTheRolesForPeopleAreWhatTheCommandsAskForAndNoMore: if a command uses a right that its
// role lacks, its advice is wrong. If no command uses a right, the role has one too many.
func TestTheRolesForPeopleAreWhatTheCommandsAskForAndNoMore(t *testing.T) {
	for dir, use := range map[string]func(*world){
		"status": func(w *world) {
			w.fill()
			w.elects("old") // on Endpoints, without a Lease
			for _, line := range []string{"status", "status plain", "status op", "status none", "status -A", "status -w"} {
				w.run(strings.Fields(line)...)
			}
		},
		"doctor": func(w *world) {
			w.fill()
			w.elects("old")
			for _, line := range []string{"doctor", "doctor op", "doctor none", "doctor new --service-account a"} {
				w.run(strings.Fields(line)...)
			}
		},
		"audit": func(w *world) {
			w.fill()
			w.run("audit", "-A", "--for", "5s")
		},
		"shift": func(w *world) {
			w.operators()
			w.announce("silent", "silent-a", "za", "")
			w.announce("silent", "silent-b", "zb", "")
			w.putLease(newLease("silent", "silent-a_1", "za"))
			for _, line := range []string{
				"handover alpha", "handover beta --to-zone zc", "handover silent --timeout 1s", "handover none", "evacuate za", "restore za",
			} {
				w.run(strings.Fields(line)...)
			}
		},
		"migrate": func(w *world) {
			w.joins("op-a", "za")
			w.joins("op-b", "zb")
			for _, line := range []string{"plan", "advance --yes", "clean --yes --acknowledge no-way-back"} {
				w.run(append(strings.Fields("migrate "+line), "op", "-l", "app=op")...)
			}
			w.legacyOfADeployment()
			w.run("migrate", "plan", "lock-deployment")
			w.run("migrate", "plan", "none")
		},
		"demo": func(w *world) { w.run("demo") },
	} {
		t.Run(dir, func(t *testing.T) {
			inABubble(t, func(w *world) {
				var mu sync.Mutex
				rights := map[string]bool{}
				w.asked = func(r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					rights[rightFor(r)] = true
				}
				use(w)
				mu.Lock() // the end of a demonstration may yet be on its way
				defer mu.Unlock()
				delete(rights, "") // every user has it
				if dir == "demo" {
					delete(rights, "get  configmaps") // without it, a candidate leads beside a legacy lock; there is none
				}
				if dir != "audit" {
					delete(rights, "list  configmaps") // who has it is told of a legacy lock that was meant; it shows what all ConfigMaps hold
				}
				if asked, granted := slices.Sorted(maps.Keys(rights)), grantedBy(t, dir); !slices.Equal(asked, granted) {
					t.Errorf("config/people/%s grants %q\nthe commands ask %q", dir, granted, asked)
				}
			})
		})
	}
}

// TestWhoeverLacksARightIsToldTheRoleThatHasIt, on an error and on a note.
func TestWhoeverLacksARightIsToldTheRoleThatHasIt(t *testing.T) {
	const bind = "ClusterRole zonelect-%[1]s grants that:" +
		" kubectl apply -k 'https://github.com/zonelect/zonelect//config/people/%[1]s?ref=main'" +
		" && kubectl create %[2]s zonelect-%[1]s --clusterrole=zonelect-%[1]s --user=USER%[3]s\n"
	inNamespace := func(role string) string { return "\n" + fmt.Sprintf(bind, role, "rolebinding", " -n ns") }
	inCluster := func(role string) string { return "\n" + fmt.Sprintf(bind, role, "clusterrolebinding", "") }
	for line, tc := range map[string]struct {
		verb, resource string
		want           string
	}{
		"status op":                    {"get", "leases", inNamespace("status")},
		"audit -A":                     {"list", "leases", inCluster("audit")},
		"status plain":                 {"list", "leases", "note: plain: the candidates are not known"},
		"status waits":                 {"get", "configmaps", "; ClusterRole zonelect-status grants that\n"},
		"status op -n ns":              {"get", "pods", "; ClusterRole zonelect-status grants that\n"},
		"handover op":                  {"update", "leases", inNamespace("shift")},
		"handover op --timeout 9s":     {"list", "leases", inNamespace("shift")},
		"handover op -n ns":            {"get", "leases", inNamespace("shift")},
		"migrate plan op":              {"get", "leases", inNamespace("migrate")},
		"doctor op":                    {"create", "subjectaccessreviews", "; ClusterRole zonelect-doctor grants that\n"},
		"evacuate za":                  {"list", "leases", inNamespace("shift")},
		"evacuate zb":                  {"get", "leases", inNamespace("shift")},
		"migrate advance op --dry-run": {"get", "leases", inNamespace("migrate")},
	} {
		t.Run(line, func(t *testing.T) {
			inABubble(t, func(w *world) {
				w.fill()
				w.forbid(tc.verb, tc.resource)
				w.denied = tc.verb == "create"
				if r := w.run(strings.Fields(line)...); !strings.Contains(r.out+r.errors, tc.want) {
					t.Errorf("exit code %d: %s%s\nwant %s", r.code, r.out, r.errors, tc.want)
				}
			})
		})
	}
}

// TestNoCommandSucceedsThatCannotReachTheCluster: a script goes by the exit code.
func TestNoCommandSucceedsThatCannotReachTheCluster(t *testing.T) {
	for _, line := range []string{"status", "doctor", "audit", "handover op", "evacuate za", "restore za", "migrate plan op", "demo"} {
		env := newEnvironment(genericiooptions.NewTestIOStreamsDiscard())
		env.connect = func() (clients, error) { return clients{}, context.DeadlineExceeded }
		if code := run(t.Context(), env, strings.Fields(line)); code != exitError {
			t.Errorf("%s: exit code %d", line, code)
		}
	}
}

// grantedBy returns the rights of the role of a folder in config/people, sorted.
func grantedBy(t *testing.T, dir string) []string {
	t.Helper()
	raw, err := os.ReadFile("../../../config/people/" + dir + "/role.yaml")
	must(t, err)
	var role rbacv1.ClusterRole
	must(t, yaml.UnmarshalStrict(raw, &role))
	if want := "zonelect-" + dir; role.Name != want {
		t.Errorf("the role of config/people/%s is %s", dir, role.Name)
	}
	var all []string
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all = append(all, strings.Join([]string{verb, rule.APIGroups[0], resource}, " "))
			}
		}
	}
	slices.Sort(all)
	return all
}

// legacyOfADeployment puts up a leader-for-life lock whose pod belongs to a Deployment.
func (w *world) legacyOfADeployment() {
	const name, apps = "deployment", "/apis/apps/v1/namespaces/ns/"
	yes := true
	owner := func(kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-" + name), Controller: &yes}}
	}
	meta := metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": name}}
	selector := &metav1.LabelSelector{MatchLabels: meta.Labels}
	pod := corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "node"}}
	pod.OwnerReferences = owner("ReplicaSet")
	set := appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}}
	set.OwnerReferences = owner("Deployment")
	w.server.Put(apps+"replicasets/"+name, set)
	w.server.Put(apps+"deployments/"+name, appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector}})
	w.server.Put("/api/v1/namespaces/ns/pods/"+name, pod)
	w.putConfigMap("lock-"+name, nil, byPod(name))
}

// rightFor returns the verb, the group and the resource of a request, in RBAC's terms; empty for one that every user may make.
func rightFor(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	switch parts[0] {
	case "api":
		parts = parts[2:]
	case "apis":
		group, parts = parts[1], parts[3:]
	default:
		return ""
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	verb := map[string]string{"GET": "get", "PUT": "update", "POST": "create", "DELETE": "delete"}[r.Method]
	switch {
	case r.URL.Query().Get("watch") == "true":
		verb = "watch"
	case verb == "get" && len(parts) == 1:
		verb = "list"
	}
	return strings.Join([]string{verb, group, parts[0]}, " ")
}
