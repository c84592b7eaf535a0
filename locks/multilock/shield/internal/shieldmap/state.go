// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shieldmap

import (
	"encoding/json"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks/ownerref"
)

const unarmed = "false"

// State is what is written on a shield. Its fields are those of [ownerref.Record]. It is a
// value: its methods return changed copies and leave the receiver unchanged.
type State struct {
	Presences []ownerref.Owner
	Armed     bool
	Stage     record.Stage
	Seen      []ownerref.Owner
	Presumed  []ownerref.Owner
}

// StateOf returns the state of the shield that was read.
func StateOf(r ownerref.Record) State {
	return State{r.Presences, r.Armed, r.Stage, r.Seen, r.Presumed}
}

// With returns s with the owners among its presences.
func (s State) With(owners ...ownerref.Owner) State {
	for _, o := range owners {
		s.Presences = with(s.Presences, o)
	}
	return s
}

// Remember returns s with the legacy pod among those seen. Beyond 100 it drops the
// oldest.
func (s State) Remember(pod ownerref.Owner) State {
	s.Seen = with(s.Seen, pod)
	s.Seen = s.Seen[max(0, len(s.Seen)-record.MaxLegacyPods):]
	return s
}

func with(owners []ownerref.Owner, o ownerref.Owner) []ownerref.Owner {
	if slices.ContainsFunc(owners, func(other ownerref.Owner) bool { return other.UID == o.UID }) {
		return owners
	}
	return append(slices.Clone(owners), o)
}

func writePods(annotations map[string]string, key string, pods []ownerref.Owner) {
	delete(annotations, key)
	if text, err := json.Marshal(pods); err == nil && len(pods) > 0 {
		annotations[key] = string(text)
	}
}

// written returns a copy of cm with state s and the labels. Everything else on cm is kept, even on
// the owner references that stay.
func (s State) written(cm *corev1.ConfigMap, labels map[string]string) *corev1.ConfigMap {
	cm = cm.DeepCopy()
	record.SetLabels(cm, labels)
	cm.OwnerReferences = s.references(cm.OwnerReferences)
	cm.Annotations = record.WriteStage(cm.Annotations, s.Stage)
	armed := unarmed
	if s.Armed {
		armed = string(cm.UID)
	}
	metav1.SetMetaDataAnnotation(&cm.ObjectMeta, record.AnnotationShieldArmed, armed)
	writePods(cm.Annotations, record.AnnotationLegacyPods, s.Seen)
	writePods(cm.Annotations, record.AnnotationPresumedGone, s.Presumed)
	return cm
}

func (s State) references(old []metav1.OwnerReference) []metav1.OwnerReference {
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

// check returns an error if nothing would ever remove a shield like s, or if not all of s would be read.
func (s State) check() error {
	if most := max(len(s.Seen), len(s.Presumed)); most > record.MaxLegacyPods {
		return fmt.Errorf("%d legacy pods are too many to remember, at most %d are", most, record.MaxLegacyPods)
	}
	if len(s.Presences) == 0 && !s.Stage.Seals() {
		return fmt.Errorf("in phase %q a shield without presences would keep legacy pods out forever: remove it instead", s.Stage.Phase)
	}
	return nil
}
