// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package usage reads from outside what an election costs: what API servers were asked, by their audit logs.
package usage

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Request is one request for Leases, as an API server audited it.
type Request struct {
	Verb string // get, list, watch, create, update, patch
	Name string // of the Lease; empty for a list or a watch of all
	Code int
	At   time.Time // when it ended
}

const policy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"], "rules": [
	{"level": "Metadata", "namespaces": ["default"], "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
	{"level": "None"}
]}`

// AuditFlags returns the flags that make an API server audit all requests for Leases of the
// namespace default in its own log. dir holds the policy.
func AuditFlags(dir string) ([]string, error) {
	file := filepath.Join(dir, "audit.json")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		return nil, fmt.Errorf("write the audit policy: %w", err)
	}
	return []string{"--audit-policy-file=" + file, "--audit-log-path=-"}, nil
}

// Audited returns the requests that ended after since, by the logs of API servers. Requests
// of one log are in the order in which they ended.
func Audited(since time.Time, logs ...string) (all []Request, err error) {
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return nil, fmt.Errorf("read what was audited: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			var e event
			if !strings.HasPrefix(line, `{"kind":"Event"`) || json.Unmarshal([]byte(line), &e) != nil {
				continue
			}
			if e.At.After(since) {
				all = append(all, Request{Verb: e.Verb, Name: e.Object.Name, Code: e.Response.Code, At: e.At})
			}
		}
	}
	return all, nil
}

// event is what matters here of an Event of audit.k8s.io/v1.
type event struct {
	Verb   string
	Object struct {
		Name string
	} `json:"objectRef"`
	Response struct {
		Code int
	} `json:"responseStatus"`
	At time.Time `json:"stageTimestamp"`
}
