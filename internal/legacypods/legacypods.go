// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package legacypods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/presence"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// Config says how to find an operator's legacy pods.
type Config struct {
	// Core, Apps and Coordination talk to those API groups, v1. Required, except Apps if
	// PodSelector is set.
	Core, Apps, Coordination rest.Interface
	// Namespace of the pods and of the lock. Required.
	Namespace string
	// Lock is the name of the lock's Lease. Required.
	Lock string
	// Self is this program's pod, with its UID. It never counts as legacy, unless it is a
	// legacy owner. Required for a candidate. A tool that only looks gives any pod of the
	// operator to start from, or none if PodSelector is set.
	Self ownerref.Owner
	// PodSelector is a label selector for all of the operator's pods, old and new.
	// Empty means the selector of the Deployment that this pod belongs to.
	PodSelector string
	// LegacyGrace is how long the node of a legacy pod must have been silent before the
	// pod counts as gone (M11): at least GraceLeast. Zero means GraceDefault, negative means never.
	LegacyGrace time.Duration
	// Held, if set, is told each legacy owner, and the labels of its pod; none if the pod is gone.
	Held func(record.LegacyHolder)
	// Logger gets a message when a pod counts as gone by M11. The zero value drops it.
	Logger logr.Logger
}

const (
	// GraceDefault is the LegacyGrace if none is set.
	GraceDefault = time.Minute
	// GraceLeast is the least LegacyGrace: one heartbeat may be lost.
	GraceLeast = 2 * heartbeat
)

// ErrSelector says that the operator's legacy pods cannot be identified: no selector is
// given or can be found, or a legacy owner does not match it. Retrying does not help.
var ErrSelector = errors.New("the operator's pods cannot be identified")

// gap is how soon after a count the next one must come for M11's silence to continue.
const gap = 10 * time.Second

// Counter counts the legacy pods that may still lead. From one count to the next it
// remembers what it saw of their nodes. Only one goroutine at a time may call its method.
type Counter struct {
	config       Config
	selector     string // once it is found
	gone         map[types.UID]bool
	presumed     map[types.UID]bool // those that were logged
	observations observations
	last         time.Time
}

// Count is the result of one count.
type Count struct {
	// Standing are the legacy pods that may still lead, by name.
	Standing []Standing
	// Presumed are the legacy pods that count as gone by M11 alone.
	Presumed []Standing
	// Note says in words why M11 could not be applied, if that matters.
	Note string
}

// Standing is one legacy pod.
type Standing struct {
	Pod     ownerref.Owner
	Node    string
	Verdict Verdict
	// Heard says that the node was seen to beat since it was first observed.
	Heard bool
}

// New returns the counter that c describes, or an error that lists what is
// wrong with c. It does no I/O.
func New(c Config) (*Counter, error) {
	errs := []error{rawapi.CheckClient(c.Core, apierror.Pods), rawapi.CheckClient(c.Coordination, apierror.Leases)}
	if c.PodSelector == "" {
		errs = append(errs, rawapi.CheckClient(c.Apps, apierror.Deployments))
	} else if parsed, err := labels.Parse(c.PodSelector); err != nil || parsed.Empty() {
		errs = append(errs, fmt.Errorf("the label selector %q selects no or all pods: %w", c.PodSelector, errors.Join(ErrSelector, err)))
	}
	if c.LegacyGrace > 0 && c.LegacyGrace < GraceLeast {
		const hasty = "the legacy grace is %v, at least %v are needed: a healthy node may be silent for %v"
		errs = append(errs, fmt.Errorf(hasty, c.LegacyGrace, GraceLeast, heartbeat))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("counting legacy pods: %w", err)
	}
	c.LegacyGrace = cmp.Or(c.LegacyGrace, GraceDefault)
	return &Counter{config: c, selector: c.PodSelector, gone: map[types.UID]bool{}, presumed: map[types.UID]bool{}}, nil
}

// Count takes one live count. A pod is legacy if the selector matches it and it has no
// presence at the lock. The pod that owns the ConfigMap (owner) and the owners seen
// before (seen) are legacy even if they have a presence. Count identifies all of them by
// UID; a zero owner is none. If such an owner exists and does not match the selector,
// Count returns an error that wraps ErrSelector (M4).
//
// Call it every second or two while waiting: for M11's silence to continue, the next
// count must come within ten seconds, and none may fail.
func (c *Counter) Count(ctx context.Context, owner ownerref.Owner, seen []ownerref.Owner) (Count, error) {
	if c.last.IsZero() || time.Since(c.last) > gap {
		c.observations = observations{nodes: map[string]*nodeView{}, finished: map[types.UID]time.Time{}}
	}
	count, err := c.count(ctx, owner, seen)
	if err != nil {
		c.last = time.Time{}
		return Count{}, fmt.Errorf("counting the legacy pods of lock %s: %w", c.config.Lock, err)
	}
	c.last = time.Now()
	return count, nil
}

func (c *Counter) count(ctx context.Context, owner ownerref.Owner, seen []ownerref.Owner) (Count, error) {
	owners := append([]ownerref.Owner{owner}, seen...)
	pods, err := c.legacy(ctx, owners)
	if err != nil {
		return Count{}, err
	}
	var count Count
	for _, pod := range pods {
		observation, note, err := c.observe(ctx, pod)
		if err != nil {
			return Count{}, err
		}
		p := Standing{Pod: ownerref.Owner{Name: pod.Name, UID: pod.UID}, Node: pod.Spec.NodeName, Heard: observation.Beats}
		switch p.Verdict = Judge(pod, observation); {
		case p.Verdict.MayLead:
			count.Standing = append(count.Standing, p)
			if count.Note == "" {
				count.Note = note
			}
		case p.Verdict.Presumed:
			count.Presumed = append(count.Presumed, p)
			c.warn(p)
		}
	}
	return count, nil
}

// Selector returns the selector of the operator's pods; empty until a count has found it.
func (c *Counter) Selector() string { return c.selector }

// warn says once per pod that M11 counts it as gone.
func (c *Counter) warn(p Standing) {
	if c.presumed[p.Pod.UID] {
		return
	}
	c.presumed[p.Pod.UID] = true
	c.config.Logger.Info("a legacy pod counts as gone, although nothing proves that it has ended: if it still runs, two may lead",
		"pod", p.Pod.Name, "uid", p.Pod.UID, "node", p.Node, "state", p.Verdict.State, "because", p.Verdict.Why)
}

// legacy returns the legacy pods, including those among owners.
func (c *Counter) legacy(ctx context.Context, owners []ownerref.Owner) (legacy []*corev1.Pod, err error) {
	selector, err := c.findSelector(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding the selector of the operator's pods: %w", err)
	}
	pods, err := rawapi.List[corev1.Pod](ctx, c.config.Core, apierror.Pods, c.config.Namespace, selector)
	if err != nil {
		return nil, err
	}
	presences, err := presence.List(ctx, c.config.Coordination, c.config.Namespace, c.config.Lock)
	if err != nil {
		return nil, err
	}
	candidates := map[types.UID]bool{c.config.Self.UID: true}
	for _, p := range presences {
		candidates[p.Pod.UID] = true
	}
	met := map[types.UID]bool{}
	for _, o := range owners {
		met[o.UID] = true
	}
	own := "" // the revision of this program's pod
	for i := range pods {
		if pod := &pods[i]; pod.UID == c.config.Self.UID && !met[pod.UID] {
			own = revisionOf(pod)
		}
	}
	listed := map[types.UID]bool{"": true}
	for i := range pods {
		pod := &pods[i]
		listed[pod.UID] = true
		if met[pod.UID] {
			c.held(ownerref.Owner{Name: pod.Name, UID: pod.UID}, pod.Labels)
		}
		if met[pod.UID] || !candidates[pod.UID] && !willBeCandidate(pod, own) {
			legacy = append(legacy, pod)
		}
	}
	for _, o := range owners {
		if err := c.makeSureGone(ctx, o, listed, selector); err != nil {
			return nil, err
		}
	}
	return legacy, nil
}

// willBeCandidate reports whether a pod has no presence only because it never started: it
// has the given revision, which is that of this program's pod, and none of its containers was ever
// seen to run. Without this, a pod that cannot start, because an image or capacity is missing,
// would keep every candidate from leading. The revision alone is not enough: if an image
// tag moves, older pods of the same revision run older code.
func willBeCandidate(pod *corev1.Pod, revision string) bool {
	return revision != "" && revisionOf(pod) == revision && pod.Status.Phase == corev1.PodPending && !everRan(pod)
}

// revisionOf names the template that a pod was made from; empty if that is not known.
func revisionOf(pod *corev1.Pod) string {
	ref := metav1.GetControllerOf(pod)
	switch {
	case ref == nil:
		return ""
	case ref.Kind == apierror.ReplicaSets.Kind:
		return string(ref.UID)
	case pod.Labels[appsv1.ControllerRevisionHashLabelKey] != "":
		return string(ref.UID) + "/" + pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	}
	return ""
}

func everRan(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil || s.RestartCount > 0
	})
}

// makeSureGone returns an error if legacy owner o exists but was not listed.
func (c *Counter) makeSureGone(ctx context.Context, o ownerref.Owner, listed map[types.UID]bool, selector string) error {
	if listed[o.UID] || c.gone[o.UID] {
		return nil
	}
	pod, err := c.pod(ctx, o)
	if err != nil {
		return err
	}
	if pod != nil {
		c.held(o, pod.Labels)
		return fmt.Errorf("%w: pod %s is or was the legacy leader, but the selector %q does not match it: "+
			"set one that matches the operator's old pods and new ones", ErrSelector, o, selector)
	}
	c.held(o, nil)
	c.gone[o.UID] = true // a UID never comes back
	return nil
}

func (c *Counter) held(o ownerref.Owner, labels map[string]string) {
	if c.config.Held != nil {
		c.config.Held(record.LegacyHolder{Name: o.String(), Labels: labels})
	}
}

// pod returns the pod with o's name and UID, or nil.
func (c *Counter) pod(ctx context.Context, o ownerref.Owner) (*corev1.Pod, error) {
	name := apierror.Object{Resource: apierror.Pods, Namespace: c.config.Namespace, Name: o.Name}
	pod, err := rawapi.New[corev1.Pod](c.config.Core, name).Get(ctx)
	if name.Absent(err) || err == nil && pod.UID != o.UID {
		return nil, nil
	}
	return pod, err
}
