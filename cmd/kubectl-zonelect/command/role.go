// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"

	"github.com/zonelect/zonelect/internal/apierror"
)

// role is a ClusterRole for people: config/people/NAME has zonelect-NAME. Each has all permissions
// that its commands need.
type role string

func (r role) name() string { return "zonelect-" + string(r) }

// advice says how to get the permission that a command lacked; empty if it failed
// for another reason.
func (r role) advice(err error) string {
	lacks, is := apierror.MissingIn(err)
	if !is {
		return ""
	}
	kind, where := "clusterrolebinding", ""
	if lacks.Namespace != "" {
		kind, where = "rolebinding", " -n "+lacks.Namespace
	}
	name := r.name()
	return fmt.Sprintf("ClusterRole %s grants that: kubectl apply -k https://github.com/zonelect/zonelect//config/people/%s && kubectl create %s %s --clusterrole=%s --user=USER%s", name, r, kind, name, name, where)
}

// explained is an error in the form printed beside a result, with the role that would have
// prevented it.
func (r role) explained(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if _, is := apierror.MissingIn(err); is {
		text += fmt.Sprintf("; ClusterRole %s grants that", r.name())
	}
	return text
}
