// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/inspect"
)

// checkWorkload says whether the workloads of the candidates' pods give a leader time to release, and how to.
func checkWorkload(l Lock) []Finding {
	of := map[string][]inspect.Candidate{}
	for _, c := range inspect.Present(l.Candidates) {
		if w := c.Workload(); scales(w) && c.Runs != nil {
			of[w] = append(of[w], c)
		}
	}
	var all []Finding
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, workload{l, name, of[name]}.grace()...)
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
	if s := w.runs[0].Runs.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	stop := w.runs[0].StopTimeout
	if stop == 0 || grace > stop {
		return nil
	}
	return []Finding{say(Warning, "the pods of %s are killed %v after they are told to end, and their work may take %v to stop: a leader that is killed does not hand over", w.name, grace, stop).
		do("%s", w.patch("terminationGracePeriodSeconds: %d", int((stop+more)/time.Second)))}
}
