// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/zonelect/zonelect/internal/inspect"
)

// more is how much longer than the work the pod should have to end, so that a leader can release.
const more = 10 * time.Second

// checkWorkload says whether the kubelet kills a leader before it has stopped. One pod of a workload speaks for all.
func checkWorkload(l Lock) []Finding {
	of := map[string]inspect.Candidate{}
	for _, c := range inspect.ByZone(inspect.Present(l.Candidates)) {
		if c.Runs != nil && of[c.Workload].Runs == nil {
			of[c.Workload] = c
		}
	}
	var all []Finding
	for _, name := range slices.Sorted(maps.Keys(of)) {
		kind, called, _ := strings.Cut(name, " ")
		grace := time.Duration(ptr.Deref(of[name].Runs.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)) * time.Second
		stop := of[name].StopTimeout
		if stop == 0 || grace > stop || kind != "Deployment" && kind != "StatefulSet" { // anybody may have written another kind
			continue
		}
		all = append(all, say(Warning, "the pods of %s are killed %v after they are told to end, and their work may take %v to stop: a leader that is killed does not hand over", name, grace, stop).
			do("%s", l.kubectl(`patch %s %s --patch "spec: {template: {spec: {terminationGracePeriodSeconds: %s}}}"`, strings.ToLower(kind), called, strconv.Itoa(int((stop+more)/time.Second)))))
	}
	return all
}
