// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zonelect/zonelect/internal/inspect"
)

// apiVersion is that of the objects that are printed. No server knows it.
const apiVersion = "zonelect.dev/v1alpha1"

// LockStatus is what is known of one lock. It is printed, and never stored.
type LockStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Status inspect.Status `json:"status"`
}

// LockStatusList holds several.
type LockStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []LockStatus `json:"items"`
}

// DeepCopyObject makes a LockStatus a runtime.Object. It is only printed, so that
// copies may share what it points to.
func (s *LockStatus) DeepCopyObject() runtime.Object { c := *s; return &c }

// DeepCopyObject does the same for a list.
func (l *LockStatusList) DeepCopyObject() runtime.Object { c := *l; return &c }

// describe says what an election means; now is the wall clock.
func describe(e inspect.Election, now time.Time) LockStatus {
	return LockStatus{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "LockStatus"},
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name},
		Status:     e.Status(now),
	}
}
