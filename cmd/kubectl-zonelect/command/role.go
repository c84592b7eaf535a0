// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zonelect/zonelect/internal/apierror"
)

// role is a ClusterRole for people: config/people/NAME has zonelect-NAME. Each has all permissions
// that its commands need.
type role string

const (
	roleStatus  role = "status"
	roleDoctor  role = "doctor"
	roleAudit   role = "audit"
	roleShift   role = "shift"
	roleMigrate role = "migrate"
	roleDemo    role = "demo"
)

// roleKey marks commands with their role.
const roleKey = "zonelect.dev/role"

// marks are the annotations of the role's commands.
func (r role) marks() map[string]string { return map[string]string{roleKey: string(r)} }

// roleOf returns the role of a command, or of the command that it belongs to;
// empty if it needs none.
func roleOf(c *cobra.Command) role {
	for ; c != nil; c = c.Parent() {
		if name := c.Annotations[roleKey]; name != "" {
			return role(name)
		}
	}
	return ""
}

func (r role) name() string { return "zonelect-" + string(r) }

// advice says how to get the permission that a command lacked; empty if it failed
// for another reason.
func (r role) advice(err error) string {
	lacks, is := apierror.MissingIn(err)
	if !is || r == "" {
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
	if _, is := apierror.MissingIn(err); is && r != "" {
		text += fmt.Sprintf("; ClusterRole %s grants that", r.name())
	}
	return text
}
