// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/record"
)

// The annotations of a shield, besides those of its stage. Each of them marks a ConfigMap
// as zonelect's.
const (
	// annotationArmed is the UID of the ConfigMap once it is armed, so that a copy that
	// somebody restores is not armed.
	annotationArmed = "zonelect.dev/shield-armed"
	// annotationSeen is ShieldState.Seen as JSON: an array of objects with a name and a uid.
	annotationSeen = "zonelect.dev/legacy-pods"
	// annotationPresumed is ShieldState.Presumed in the same form.
	annotationPresumed = "zonelect.dev/presumed-gone"
)

const unarmed = "false"

// maxSeen bounds ShieldState.Seen.
const maxSeen = 100

// ShieldState is the content of a shield. It is a value: its methods return changed
// copies and leave the receiver unchanged.
type ShieldState struct {
	// Presences own the shield. A sealed shield has none.
	Presences []Owner
	// Armed says that no legacy pod was left after this very ConfigMap was up. No
	// candidate may lead under an unarmed shield, sealed or not.
	Armed bool
	Stage record.Stage
	// Seen lists the legacy owners that candidates have seen, at most 100, the oldest
	// first.
	Seen []Owner
	// Presumed lists the legacy pods that still existed when the shield was armed,
	// because their nodes had been silent for the grace or were out of service (M11), at
	// most 100. If the node of one is heard of again, the leader must stop.
	Presumed []Owner
}

// With returns s with the owners among its presences.
func (s ShieldState) With(owners ...Owner) ShieldState {
	for _, o := range owners {
		s.Presences = with(s.Presences, o)
	}
	return s
}

// Without returns s without p among its presences.
func (s ShieldState) Without(p Owner) ShieldState {
	s.Presences = without(s.Presences, p)
	return s
}

// Has reports whether p is among the presences.
func (s ShieldState) Has(p Owner) bool { return has(s.Presences, p) }

// Remember returns s with the legacy pod among those seen. Beyond 100 it drops the
// oldest.
func (s ShieldState) Remember(pod Owner) ShieldState {
	s.Seen = latest(with(s.Seen, pod))
	return s
}

// Forget returns s without pod among those seen. A pod that is gone may be forgotten,
// because its UID never comes back.
func (s ShieldState) Forget(pod Owner) ShieldState {
	s.Seen = without(s.Seen, pod)
	return s
}

func has(owners []Owner, o Owner) bool {
	return slices.ContainsFunc(owners, func(other Owner) bool { return other.UID == o.UID })
}

func with(owners []Owner, o Owner) []Owner {
	if has(owners, o) {
		return owners
	}
	return append(slices.Clone(owners), o)
}

func without(owners []Owner, o Owner) []Owner {
	return slices.DeleteFunc(slices.Clone(owners), func(other Owner) bool { return other.UID == o.UID })
}

func latest(seen []Owner) []Owner { return seen[max(0, len(seen)-maxSeen):] }

// sealing reports whether a shield in that stage needs no owner.
func sealing(s record.Stage) bool {
	return s.Phase == record.PhaseSealed || s.Phase == record.PhaseClean
}

// marked reports whether any annotation says that a ConfigMap is zonelect's.
func marked(cm *corev1.ConfigMap) bool {
	_, armed := cm.Annotations[annotationArmed]
	_, seen := cm.Annotations[annotationSeen]
	_, presumed := cm.Annotations[annotationPresumed]
	return armed || seen || presumed || record.ReadStage(cm.Annotations) != record.Stage{}
}

// readShield reads a shield's state. It treats invalid values as absent.
func readShield(cm *corev1.ConfigMap) ShieldState {
	s := ShieldState{
		Armed: cm.UID != "" && cm.Annotations[annotationArmed] == string(cm.UID),
		Stage: record.ReadStage(cm.Annotations),
	}
	for _, ref := range cm.OwnerReferences {
		s.Presences = append(s.Presences, ownerOf(ref))
	}
	s.Seen = readPods(cm.Annotations[annotationSeen])
	s.Presumed = readPods(cm.Annotations[annotationPresumed])
	return s
}

func readPods(list string) (all []Owner) {
	var pods []json.RawMessage
	_ = json.Unmarshal([]byte(list), &pods) // garbage lists nothing
	for _, raw := range pods {
		var pod Owner
		if json.Unmarshal(raw, &pod) == nil && pod.Name != "" && pod.UID != "" {
			all = append(all, pod)
		}
	}
	return latest(all)
}

func writePods(annotations map[string]string, key string, pods []Owner) {
	delete(annotations, key)
	if text, err := json.Marshal(pods); err == nil && len(pods) > 0 {
		annotations[key] = string(text)
	}
}

// written returns a copy of cm with state s. Everything else on cm is kept, even on the
// owner references that stay.
func (s ShieldState) written(cm *corev1.ConfigMap) *corev1.ConfigMap {
	cm = cm.DeepCopy()
	cm.OwnerReferences = s.references(cm.OwnerReferences)
	cm.Annotations = record.WriteStage(cm.Annotations, s.Stage)
	armed := unarmed
	if s.Armed {
		armed = string(cm.UID)
	}
	metav1.SetMetaDataAnnotation(&cm.ObjectMeta, annotationArmed, armed)
	writePods(cm.Annotations, annotationSeen, s.Seen)
	writePods(cm.Annotations, annotationPresumed, s.Presumed)
	return cm
}

func (s ShieldState) references(old []metav1.OwnerReference) []metav1.OwnerReference {
	var refs []metav1.OwnerReference
	for _, p := range s.Presences {
		same := func(ref metav1.OwnerReference) bool { return ref.UID == p.UID }
		if i := slices.IndexFunc(old, same); i >= 0 {
			refs = append(refs, old[i])
			continue
		}
		refs = append(refs, metav1.OwnerReference{
			APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: apierror.Leases.Kind, Name: p.Name, UID: p.UID,
		})
	}
	return refs
}

// check returns an error that lists what no shield may contain but s does.
func (s ShieldState) check() error {
	var errs []error
	if len(s.Presences) == 0 && !sealing(s.Stage) {
		errs = append(errs, fmt.Errorf("in phase %q a shield without presences would keep legacy pods out for ever: remove it instead", s.Stage.Phase))
	}
	for _, p := range s.Presences {
		if p.Name == "" || p.UID == "" {
			errs = append(errs, fmt.Errorf("%s is no presence: it must be a Lease with a name and a UID", p))
		}
	}
	for _, pod := range slices.Concat(s.Seen, s.Presumed) {
		if pod.Name == "" || pod.UID == "" || strings.ContainsAny(pod.String(), ",") || strings.Contains(pod.Name, "/") {
			errs = append(errs, fmt.Errorf("pod %s cannot be remembered: it needs a name and a UID", pod))
		}
	}
	if most := max(len(s.Seen), len(s.Presumed)); most > maxSeen {
		errs = append(errs, fmt.Errorf("%d legacy owners are too many to remember, at most %d are", most, maxSeen))
	}
	return errors.Join(errs...)
}
