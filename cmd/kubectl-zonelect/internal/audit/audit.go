// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit lists the elections of a cluster, whoever runs them: who holds what, by which kind of lock, and how
// long a lease lasts. It is pure, and finds only what is certain: what two looks at the same objects and the pods show.
package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/doctor"
	"github.com/zonelect/zonelect/internal/inspect"
)

// Kind is where the record of an election is.
type Kind string

// The kinds.
const (
	OnLease     Kind = "Lease"
	OnConfigMap Kind = "ConfigMap" // client-go's record on an annotation
	OnEndpoints Kind = "Endpoints" // the same
	IsForLife   Kind = "leader-for-life"
)

// Election is one election, as it was seen at one moment.
type Election struct {
	Kind      Kind   `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Holder    string `json:"holder,omitempty"`
	// Writer is the field manager of the last write; empty if that is not known.
	Writer string `json:"writer,omitempty"`
	// Zonelect says that the holder is a program of zonelect, and Phase how far it has moved off another lock.
	Zonelect bool   `json:"zonelect,omitempty"`
	Phase    string `json:"phase,omitempty"`
	// LeaseDurationSeconds is missing if the object does not say it.
	LeaseDurationSeconds int64             `json:"leaseDurationSeconds,omitempty"`
	Renewed              *metav1.MicroTime `json:"renewed,omitempty"`
	// Pod is that of the holder, and Workload what runs it; empty if they are not known.
	Pod      string           `json:"pod,omitempty"`
	Workload string           `json:"workload,omitempty"`
	Findings []doctor.Finding `json:"findings,omitempty"`

	foreign      bool   // a record on an annotation is not as client-go writes it
	podName, uid string // of the holder's pod, if the object says them
}

// hints are what helps, by check.
var hints = map[string]string{
	"holder-gone": "if the program was removed, delete the object; if it runs, look at its log: its replicas do not take the lock",
	"silent": "if the program was removed, delete the object; if it runs, look at its log: a liveness probe that knows of the election " +
		"(client-go's HealthzAdaptor, zonelect's LivenessHandler) restarts a program that hangs",
	"vacant":      "if the program was removed or scaled down, delete the object; if it runs, look at its log and its rights",
	"no-duration": "set the lease duration where the program is configured",
	"for-life":    "move it to a Lease while the operator runs: see " + doctor.Page("migration.md"),
	"old-record":  "move it to a Lease: client-go has no such lock since 0.28",
	"unseen":      "watch for longer, with --for",
}

// Say is a finding of a check.
func Say(check string, r doctor.Result, format string, args ...any) doctor.Finding {
	text := fmt.Sprintf(format, args...)
	return doctor.Finding{Check: check, Result: r, Text: text, Hint: hints[check], Link: doctor.Page("audit.md#" + check)}
}

// find adds a finding.
func (e *Election) find(check string, r doctor.Result, format string, args ...any) {
	e.Findings = append(e.Findings, Say(check, r, format, args...))
}

// Pods are those that there are, by namespace and name. Unknown is why they could not be read.
type Pods = doctor.Fact[map[string]Pod]

// Pod is what is kept of a pod.
type Pod struct {
	uid, workload string
	state         string // why it leads no more; empty if it may
}

// PodOf keeps what is needed of a pod.
func PodOf(p *corev1.Pod) Pod {
	of := Pod{uid: string(p.UID), workload: inspect.WorkloadOf(p)}
	switch {
	case p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded:
		of.state = "has ended"
	case p.DeletionTimestamp != nil:
		of.state = "is being deleted"
	}
	return of
}

// Judge returns the elections that there were the second time, with what is certain about them. Between is the time
// from one look to the other.
func Judge(before, after []Election, between time.Duration, pods Pods) []Election {
	was := map[string]Election{}
	key := func(e Election) string { return string(e.Kind) + "/" + e.Namespace + "/" + e.Name }
	for _, e := range before {
		was[key(e)] = e
	}
	for i := range after {
		e := &after[i]
		state := e.locate(pods)
		then, seen := was[key(*e)]
		e.judgeKind()
		e.judgeHolder(seen && then.Holder == e.Holder && then.Renewed.Equal(e.Renewed), between, state)
	}
	slices.SortFunc(after, func(a, b Election) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return after
}

// locate finds the pod of the holder, and returns why that leads no more. If the object does not name the pod with its
// UID, it is the one whose name the identity begins with, as most electors make it; that no such pod exists proves nothing.
func (e *Election) locate(pods Pods) string {
	name := e.podName
	if name == "" {
		name, _, _ = strings.Cut(e.Holder, "_")
	}
	p, found := pods.Value[e.Namespace+"/"+name]
	switch {
	case pods.Unknown != "" || name == "":
		return ""
	case e.uid != "" && p.uid != e.uid:
		e.Pod = name
		return "is gone"
	case found:
		e.Pod, e.Workload = name, p.workload
	}
	return p.state
}

// judgeKind finds what follows from the kind of the lock.
func (e *Election) judgeKind() {
	switch {
	case e.Kind == IsForLife:
		e.find("for-life", doctor.Warning, "pod %s holds it until it is deleted: when its node is lost, nobody leads for a minute to forever, "+
			"as the version of leader-for-life has it", e.podName)
	case e.foreign:
		e.find("old-record", doctor.Note, "its record is an annotation on %s, and not as client-go writes it", e.Kind)
	case e.Kind != OnLease:
		e.find("old-record", doctor.Note, "its record is an annotation on %s", e.Kind)
	}
}

// judgeHolder finds what is wrong with the holder. same says that nobody wrote the lock meanwhile, and state why the
// holder's pod leads no more.
func (e *Election) judgeHolder(same bool, between time.Duration, state string) {
	lease, watched := time.Duration(e.LeaseDurationSeconds)*time.Second, duration.HumanDuration(between)
	silent := fmt.Sprintf("%s holds it and has not renewed it in %s of watching; its lease lasts %s", e.Holder, watched, lease)
	switch {
	case e.Kind == IsForLife && state != "":
		e.find("holder-gone", doctor.Problem, "its pod %s %s: nobody leads until the ConfigMap is deleted, with the pod", e.podName, state)
	case e.Kind == IsForLife || e.foreign:
	case e.Holder == "" && same:
		e.find("vacant", doctor.Warning, "nobody holds it, and nobody took it in %s of watching", watched)
	case e.Holder == "": // it was released just now
	case lease <= 0:
		const endless = "%s holds it, and it does not say for how long: some electors take it at once, others never"
		e.find("no-duration", doctor.Warning, endless, e.Holder)
	case !same:
	case between < lease:
		const short = "no renewal was seen in %s of watching, and its lease lasts %s: whether somebody leads is not known"
		e.find("unseen", doctor.Note, short, watched, lease)
	case state != "":
		e.find("holder-gone", doctor.Problem, "%s; its pod %s %s", silent, e.Pod, state)
	case e.Pod != "":
		e.find("silent", doctor.Problem, "%s, though its pod %s is there", silent, e.Pod)
	default:
		e.find("silent", doctor.Warning, "%s", silent)
	}
}
