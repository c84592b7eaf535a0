// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/record"
)

// WorkloadOf names what runs a pod, such as "Deployment my-operator", by the pod alone: the parts of
// a rollout have one name. It is empty if that is not known.
func WorkloadOf(pod *corev1.Pod) string {
	ref := metav1.GetControllerOf(pod)
	if ref == nil || ref.Kind == "Node" { // a static pod is its node's
		return ""
	}
	for _, by := range []struct{ label, kind string }{
		{appsv1.DefaultDeploymentUniqueLabelKey, "Deployment"},
		{"rollouts-pod-template-hash", "Rollout"}, // of Argo
	} {
		hash := pod.Labels[by.label]
		if name, is := strings.CutSuffix(ref.Name, "-"+hash); is && hash != "" {
			return by.kind + " " + name
		}
	}
	switch ref.Kind {
	case "Job", "ReplicationController": // a CronJob and a DeploymentConfig number theirs
		return ref.Kind + " " + strings.TrimRight(ref.Name, "-0123456789")
	}
	return ref.Kind + " " + ref.Name
}

// Workload is that of the candidate's pod, as WorkloadOf names it; empty if the pod does not run or
// was not read.
func (c Candidate) Workload() string {
	if c.Part == nil || c.PodState != Ready && c.PodState != NotReady {
		return ""
	}
	return c.workload
}

// SeveralWorkloads says that candidates that run belong to several workloads; empty if they do not,
// as far as is known.
func SeveralWorkloads(all []Candidate) string {
	pods, counted := map[string]bool{}, map[string]int{}
	for _, c := range all {
		if of := c.Workload(); of != "" && !pods[c.UID] {
			pods[c.UID] = true
			counted[of]++
		}
	}
	if len(counted) < 2 {
		return ""
	}
	return fmt.Sprintf("the candidates belong to different workloads: %s: do two programs use one lock name?", listed(counted))
}

// listed lists numbers of things, those of the largest number first.
func listed(numbers map[string]int) string {
	names := slices.SortedFunc(maps.Keys(numbers), func(a, b string) int {
		return cmp.Or(cmp.Compare(numbers[b], numbers[a]), cmp.Compare(a, b))
	})
	var texts []string
	for _, name := range names[:min(len(names), mostFew)] {
		texts = append(texts, fmt.Sprintf("%s (%d)", name, numbers[name]))
	}
	if more := len(names) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

// checkWorkloads warns if candidates belong to several workloads. In a migration one may replace the
// other.
func (s *Status) checkWorkloads(all []Candidate) {
	switch text := SeveralWorkloads(all); {
	case text == "":
	case s.Phase == "" || s.Phase == record.PhaseClean:
		s.Warn("%s", text)
	default:
		s.Note("%s", text)
	}
}
