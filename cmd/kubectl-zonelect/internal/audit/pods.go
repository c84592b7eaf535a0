// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/inspect"
)

// Pod is what is kept of a pod.
type Pod struct {
	Namespace, Name, UID, Node string
	Workload                   string // what runs it, such as "Deployment op"; empty if that is not known
	HostNetwork                bool   // its host name is that of its node
	Ended                      bool   // its containers have ended for good
	Going                      bool   // it is being deleted
	Flags                      []Flags
}

// PodOf keeps what is needed of a pod.
func PodOf(p *corev1.Pod) Pod {
	return Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName,
		Workload: workloadOf(p), HostNetwork: p.Spec.HostNetwork,
		Ended: p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded,
		Going: p.DeletionTimestamp != nil, Flags: flagsOf(p.Spec.Containers),
	}
}

// workloadOf is inspect.WorkloadOf and, for the static pods of nodes, their common name.
func workloadOf(p *corev1.Pod) string {
	if ref := metav1.GetControllerOf(p); ref != nil && ref.Kind == "Node" {
		return "static pod " + strings.TrimSuffix(p.Name, "-"+p.Spec.NodeName)
	}
	return inspect.WorkloadOf(p)
}

// runs reports whether a pod may have a candidate.
func (p Pod) runs() bool { return !p.Ended && !p.Going }

// index finds pods.
type index struct {
	Cluster
	byName     map[string][]*Pod // all of that name, in any namespace
	byWorkload map[string][]*Pod // by namespace/workload
	nodes      map[string]bool
	zones      int // how many zones have nodes
}

func (c Cluster) index() *index {
	x := &index{Cluster: c, byName: map[string][]*Pod{}, byWorkload: map[string][]*Pod{}, nodes: map[string]bool{}, zones: len(valuesOf(c.Zones.Value))}
	for i := range c.Pods.Value {
		p := &c.Pods.Value[i]
		x.byName[p.Name] = append(x.byName[p.Name], p)
		x.nodes[p.Node] = true
		if p.Workload != "" {
			key := p.Namespace + "/" + p.Workload
			x.byWorkload[key] = append(x.byWorkload[key], p)
		}
	}
	for node := range c.Zones.Value {
		x.nodes[node] = true
	}
	return x
}

// place is where a holder is.
type place struct {
	pod      *Pod   // nil if it is not known
	gone     string // the name of the pod that is gone for certain; empty if none is
	named    string // the name of a pod that the holder's identity may have; empty if it is a node's
	workload string // of the pod, or of its siblings
	siblings []*Pod // those of the workload that run
}

// find finds the pod of the holder.
func (x *index) find(e Election) place {
	if x.Pods.Unknown != "" {
		return place{}
	}
	var at place
	switch s := e.Last(); {
	case e.Kind == IsForLife:
		at = x.byUID(e.Namespace, e.Owner.Name, string(e.Owner.UID))
	case s.Pod != "":
		name, uid, _ := strings.Cut(s.Pod, "/")
		at = x.byUID(e.Namespace, name, uid)
	case s.Holder != "":
		at = x.byIdentity(e)
	}
	switch {
	case at.pod != nil:
		at.workload, at.siblings = at.pod.Workload, x.running(at.pod.Namespace, at.pod.Workload)
	case at.named != "":
		at.workload, at.siblings = x.siblingsOf(e.Namespace, at.named)
	}
	return at
}

// byUID finds a pod by its UID, so that it is known for certain whether it is gone.
func (x *index) byUID(namespace, name, uid string) place {
	for _, p := range x.byName[name] {
		if p.Namespace == namespace && p.UID == uid {
			return place{pod: p}
		}
	}
	return place{gone: name, named: name}
}

// byIdentity finds a pod by what most electors take for an identity: the host name, and then something
// random. A host name is a pod's name or, on the network of the host, a node's. There a static pod has
// the node's name in its own.
func (x *index) byIdentity(e Election) place {
	host, _, _ := strings.Cut(e.Last().Holder, "_")
	pods := x.byName[host]
	if i := slices.IndexFunc(pods, func(p *Pod) bool { return p.Namespace == e.Namespace }); i >= 0 {
		return place{pod: pods[i], named: host}
	}
	if len(pods) == 1 {
		return place{pod: pods[0], named: host}
	}
	for _, p := range x.byName[e.Name+"-"+host] {
		if p.Namespace == e.Namespace && p.Node == host {
			return place{pod: p}
		}
	}
	if x.nodes[host] {
		return place{}
	}
	return place{named: host}
}

// running are the pods of a workload that may have candidates.
func (x *index) running(namespace, workload string) []*Pod {
	if workload == "" {
		return nil
	}
	var all []*Pod
	for _, p := range x.byWorkload[namespace+"/"+workload] {
		if p.runs() {
			all = append(all, p)
		}
	}
	return all
}

// siblingsOf finds those that a pod that is gone has left, by the name that its workload gave it.
func (x *index) siblingsOf(namespace, name string) (workload string, running []*Pod) {
	set, _, _ := cutLast(name)
	deployment, _, _ := cutLast(set)
	for _, guess := range []string{"Deployment " + deployment, "StatefulSet " + set, "DaemonSet " + set, "ReplicaSet " + set} {
		if running := x.running(namespace, guess); len(running) > 0 {
			return guess, running
		}
	}
	return "", nil
}

func cutLast(name string) (before, after string, found bool) {
	i := strings.LastIndex(name, "-")
	if i < 0 {
		return "", name, false
	}
	return name[:i], name[i+1:], true
}

// zonesOf counts pods by zone; "?" is one that is not known.
func (x *index) zonesOf(pods []*Pod) map[string]int {
	if len(pods) == 0 {
		return nil
	}
	all := map[string]int{}
	for _, p := range pods {
		zone := x.Zones.Value[p.Node]
		if zone == "" {
			zone = "?"
		}
		all[zone]++
	}
	return all
}

// valuesOf are the values of a map, each once, without the empty one, sorted.
func valuesOf(m map[string]string) []string {
	all := slices.Sorted(maps.Values(m))
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool { return s == "" })
}
