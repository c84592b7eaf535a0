// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/zonelect/zonelect/internal/inspect"
)

// checkWorkload says what the workloads of the candidates' pods lack, and how to add it.
func checkWorkload(l Lock) []Finding {
	of := map[string][]inspect.Candidate{}
	for _, c := range inspect.Present(l.Candidates) {
		if w := c.Workload(); scales(w) && c.Runs != nil {
			of[w] = append(of[w], c)
		}
	}
	var all []Finding
	for _, name := range slices.Sorted(maps.Keys(of)) {
		w := workload{l, name, of[name]}
		all = append(all, w.grace()...)
		all = append(all, w.spread()...)
		all = append(all, w.budget()...)
		all = append(all, w.proof()...)
	}
	return all
}

// scales reports whether a workload, as inspect.WorkloadOf names it, is of a kind that has replicas and
// that kubectl patches. Anybody may have written another kind.
func scales(workload string) bool {
	kind, _, _ := strings.Cut(workload, " ")
	return kind == "Deployment" || kind == "StatefulSet"
}

// workload is what runs some of a lock's candidates. All that is checked is in its pods' template, so
// that one pod speaks for all.
type workload struct {
	Lock
	name string // as inspect.WorkloadOf has it
	runs []inspect.Candidate
}

func (w workload) pod() *corev1.Pod { return w.runs[0].Runs }

// command is a kubectl command about the workload.
func (w workload) command(verb, rest string) string {
	kind, name, _ := strings.Cut(w.name, " ")
	return w.kubectl("%s %s %s %s", verb, strings.ToLower(kind), named(name, "NAME"), rest)
}

// patch is the command that changes the pods' template.
func (w workload) patch(format string, args ...any) string {
	return w.command("patch", fmt.Sprintf(`--patch "spec: {template: {spec: {`+format+`}}}"`, args...))
}

// more is how much longer than the work the pod should have to end, so that a leader can release.
const more = 10 * time.Second

// grace says whether the kubelet kills a leader before it has stopped.
func (w workload) grace() []Finding {
	grace := time.Duration(corev1.DefaultTerminationGracePeriodSeconds) * time.Second
	if s := w.pod().Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	stop := w.runs[0].StopTimeout
	if stop == 0 || grace > stop {
		return nil
	}
	return []Finding{say(Warning, "the pods of %s are killed %v after they are told to end, and their work may take %v to stop: a leader that is killed does not hand over", w.name, grace, stop).
		do("%s", w.patch("terminationGracePeriodSeconds: %d", int((stop+more)/time.Second)))}
}

// spread says whether nothing keeps the scheduler from putting all pods into one zone.
func (w workload) spread() []Finding {
	spec := w.pod().Spec
	zones := func(c corev1.TopologySpreadConstraint) bool { return c.TopologyKey == corev1.LabelTopologyZone }
	if slices.ContainsFunc(spec.TopologySpreadConstraints, zones) || spec.Affinity != nil && spec.Affinity.PodAntiAffinity != nil {
		return nil
	}
	return []Finding{say(Note, "nothing spreads the pods of %s over zones", w.name).
		do("%s", w.patch("topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {%s}}}]", w.selector(": ", ", ")))}
}

// budget says whether a drain may take all pods at once.
func (w workload) budget() []Finding {
	switch {
	case len(w.runs) < 2:
		return nil
	case w.Budgets.Unknown != "":
		return unread("whether a PodDisruptionBudget covers the pods of "+w.name, w.Budgets.Unknown)
	}
	for _, b := range w.Budgets.Value {
		if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && s.Matches(labels.Set(w.pod().Labels)) {
			return nil
		}
	}
	_, name, _ := strings.Cut(w.name, " ")
	return []Finding{say(Note, "no PodDisruptionBudget covers the pods of %s: a drain may take all of them at once", w.name).
		do("%s", w.kubectl("create poddisruptionbudget %s --max-unavailable=1 --selector=%s", named(name, "NAME"), w.selector("=", ",")))}
}

// proof says why it may be that nobody can prove that a leader has ended.
func (w workload) proof() []Finding {
	spec, why := w.pod().Spec, ""
	switch {
	case spec.HostPID, spec.ShareProcessNamespace != nil && *spec.ShareProcessNamespace:
		why = "share a PID namespace, so that a container's end proves nothing"
	case spec.RuntimeClassName != nil:
		why = "have the runtime class " + *spec.RuntimeClassName + ": in gVisor and Kata Containers nothing is proven"
	default:
		return nil
	}
	return []Finding{say(Note, "the pods of %s %s: after a leader's crash its lease must run out", w.name, why).
		do("nothing need be done; %s says what is proven where", Page("design.md")+"#proof-of-death")}
}

// ofOne are labels that controllers give the pods of one version, or one pod.
var ofOne = []string{
	appsv1.DefaultDeploymentUniqueLabelKey, appsv1.ControllerRevisionHashLabelKey, appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel,
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
}

// word is a label's value that is a text in YAML too.
var word = regexp.MustCompile(`^[a-z][-a-z0-9.]+$`)

// selector is the labels that the pods of the workload have in all versions, as far as is known.
func (w workload) selector(is, and string) string {
	var all []string
	for key, value := range w.pod().Labels {
		if !slices.Contains(ofOne, key) && word.MatchString(value) && value != "true" && value != "false" && value != "null" {
			all = append(all, key+is+value)
		}
	}
	slices.Sort(all)
	return strings.Join(all, and)
}
