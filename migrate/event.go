// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
)

// tell tries to post an Event on the Lease.
func (m *Migration) tell(ctx context.Context, r Report, out Outcome) {
	reason := "MigrationAdvanced"
	if s := r.course().stepTo(out.From, out.To); s != nil && s.By == byRollback {
		reason = "MigrationRolledBack"
	}
	now := metav1.Now()
	name := fmt.Sprintf("%s.%x", m.config.Lock, time.Now().UnixNano())
	_, err := rawapi.New[corev1.Event](m.config.Core, m.object(apierror.Events, name)).Create(ctx, &corev1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: apierror.Leases.Kind,
			Namespace: m.config.Namespace, Name: m.config.Lock, UID: types.UID(r.read.Version.UID),
		},
		Reason: reason, Type: corev1.EventTypeNormal, Source: corev1.EventSource{Component: m.config.User},
		Message:        fmt.Sprintf("%s took the migration from phase %s to %s (step %d)", m.config.User, out.From, out.To, out.Step),
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	})
	if err != nil {
		m.config.Logger.Info("could not post the Event about the step", "cause", err.Error())
	}
}
