// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"path"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
)

// Flags is what the arguments of a container say of an election. Zero fields are not there.
type Flags struct {
	Program                string // the first word of its command, without a path
	Lease, Deadline, Retry time.Duration
}

// flagName is the name of such a flag or variable. Programs add a prefix to those of component-base.
var flagName = regexp.MustCompile(`^(?:leader-?elect(?:ion)?-)?(lease-duration|renew-deadline|retry-period|renew-interval|timing)$`)

// flagsOf reads the arguments of containers. One that says nothing of an election is left out, unless
// its program is known to be in one.
func flagsOf(containers []corev1.Container) []Flags {
	var all []Flags
	for _, c := range containers {
		var f Flags
		words := wordsOf(append(append([]string{}, c.Command...), c.Args...))
		if len(c.Command) > 0 && len(words) > 0 {
			f.Program = path.Base(words[0])
		}
		for i, word := range words {
			name, isFlag := strings.CutPrefix(strings.TrimPrefix(word, "-"), "-")
			if !isFlag && !strings.HasPrefix(word, "-") {
				continue
			}
			name, value, given := strings.Cut(name, "=")
			if !given && i+1 < len(words) {
				value = words[i+1]
			}
			f.set(name, value)
		}
		for _, e := range c.Env {
			if strings.HasPrefix(e.Name, "LEADER_ELECT") {
				f.set(strings.ToLower(strings.ReplaceAll(e.Name, "_", "-")), e.Value)
			}
		}
		if f.timed() || isComponent(f.Program) {
			all = append(all, f)
		}
	}
	return all
}

// wordsOf splits arguments that are lines of a shell.
func wordsOf(args []string) []string {
	var words []string
	for _, arg := range args {
		words = append(words, strings.Fields(arg)...)
	}
	return words
}

func (f Flags) timed() bool { return f.Lease > 0 || f.Deadline > 0 || f.Retry > 0 }

// set sets a field if that is the flag's, and the value is a duration.
func (f *Flags) set(name, value string) {
	is := flagName.FindStringSubmatch(name)
	if is == nil {
		return
	}
	d, err := time.ParseDuration(value)
	switch {
	case is[1] == "timing":
		f.named(value)
	case err != nil || d <= 0:
	case is[1] == "lease-duration":
		f.Lease = d
	case is[1] == "renew-deadline":
		f.Deadline = d
	default:
		f.Retry = d
	}
}

// named sets the timings of zonelect that have names.
func (f *Flags) named(name string) {
	t, known := map[string]election.Timing{"fast": timing.Fast(), "patient": timing.Patient()}[name]
	if known {
		f.Lease, f.Deadline, f.Retry = t.LeaseDuration, t.RenewDeadline, t.RenewInterval
	}
}

// componentDeadline is the RenewDeadline of Kubernetes' own components without a flag, see
// https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/.
const componentDeadline = 10 * time.Second

// isComponent reports whether a program is a component of Kubernetes whose defaults are documented.
func isComponent(program string) bool {
	return program == "kube-controller-manager" || program == "kube-scheduler" || program == "cloud-controller-manager"
}

// deadlineOf is what the arguments of the holder's pod say of RenewDeadline; zero if they do not, or if
// they may be about another election: several containers have some, or they contradict what was seen.
func deadlineOf(p *Pod, lease, period time.Duration) (deadline, retry time.Duration) {
	if p == nil || len(p.Flags) != 1 {
		return 0, 0
	}
	f := p.Flags[0]
	if f.Lease > 0 && f.Lease.Truncate(time.Second) != lease || f.Retry > 0 && period > 0 && (period > f.Retry*3/2 || period < f.Retry/2) {
		return 0, 0
	}
	if f.Deadline == 0 && isComponent(f.Program) {
		f.Deadline = componentDeadline
	}
	return f.Deadline, f.Retry
}
