// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Cluster is what was read about the API server and the namespace.
type Cluster struct {
	Namespace string
	Address   string // at which the API is asked
	// Offset is how far the API server's clock is ahead of this machine's; nil if unknown.
	Offset *time.Duration
	// Gets, Lists and Writes are how long requests took, and Failed why others of them failed.
	// Writes were trials (dryRun), with all that stands before a write. Denied and Untried are what
	// this user may not do, and why no write was tried; empty if it may, and if one was. Refused is
	// what an admission rule said to the trial. Shed says that the API server refused a request
	// because of its load.
	Gets, Lists, Writes []time.Duration
	Failed              []string
	Denied, Untried     string
	Refused             string
	Shed                bool

	// Answer is how long an answer may take: the shortest of the locks that were looked at.
	Answer time.Duration

	Slices     Fact[[]discoveryv1.EndpointSlice] // of the Service kubernetes
	Webhooks   Fact[[]Webhook]
	Policies   Fact[[]Policy]
	Quotas     Fact[[]corev1.ResourceQuota]
	FlowSchema Fact[*flowcontrolv1.FlowSchema] // nil if it does not exist

	// Creates says that a Lease has yet to be created, and Legacy that ConfigMaps matter.
	Creates, Legacy bool
}

// Check makes all checks of a cluster.
func (c Cluster) Check() []Finding {
	return runAll(c, "", []check[Cluster]{
		{"latency", checkLatency},
		{"clock", checkClock},
		{"servers", checkServers},
		{"webhooks", checkWebhooks},
		{"policies", checkPolicies},
		{"quotas", checkQuotas},
		{"flowcontrol", checkFlowControl},
	})
}

// slow is how long a request may take without a remark: half of what a second of
// RenewInterval leaves.
const slow = 500 * time.Millisecond

// RoundTrip is the longest that a request took; zero if none was answered.
func (c Cluster) RoundTrip() time.Duration {
	return slices.Max(append(slices.Concat(c.Gets, c.Lists, c.Writes), 0))
}

func checkLatency(c Cluster) []Finding {
	var all []Finding
	if len(c.Failed) > 0 {
		all = append(all, say(Problem, "%d of %d requests for Leases failed: %s", len(c.Failed), len(c.Failed)+len(c.Gets)+len(c.Lists)+len(c.Writes), list(slices.Compact(slices.Sorted(slices.Values(c.Failed))))).do("candidates see the same if they ask that API server: look at its log, and at etcd's"))
	}
	if c.Denied != "" {
		all = append(all, unread("how long some requests take", c.Denied)...)
	}
	if c.Untried != "" {
		all = append(all, unread("how long a write takes", c.Untried)...)
	}
	if c.Refused != "" {
		all = append(all, say(Warning, "a trial write of a Lease, which changes nothing, was refused: %s", c.Refused).do("candidates may be refused, too: see the checks webhooks and policies, and the candidates' logs"))
	}
	if len(c.Gets)+len(c.Lists)+len(c.Writes) == 0 {
		return all
	}
	result, hint := OK, ""
	if c.RoundTrip() > slow {
		result, hint = Warning, "candidates may be nearer to the API server than this machine; if they are not: is etcd's disk slow, or the API server busy? See check timing"
		if slices.Max(append(slices.Concat(c.Gets, c.Lists), 0)) <= slow {
			hint = "only writes are slow: is a webhook, or etcd's disk? See the checks webhooks and timing"
		}
	}
	return append(all, say(result, "coordination.k8s.io/v1 is served; requests took %s", c.took()).do("%s", hint))
}

// took lists how long requests took.
func (c Cluster) took() string {
	var parts []string
	for _, kind := range []struct {
		name string
		all  []time.Duration
	}{{"get", c.Gets}, {"list", c.Lists}, {"trial write", c.Writes}} {
		var times []string
		for _, d := range kind.all {
			times = append(times, d.Round(time.Millisecond).String())
		}
		if len(times) > 0 {
			parts = append(parts, kind.name+": "+strings.Join(times, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

func checkClock(c Cluster) []Finding {
	if c.Offset == nil {
		return unread("whether this machine's clock is right", "the API server's answer has no Date")
	}
	if d := c.Offset.Abs(); d > clockTolerance {
		side := "behind"
		if *c.Offset < 0 {
			side = "ahead of"
		}
		return []Finding{say(Warning, "this machine's clock is %s %s the API server's", d.Truncate(time.Second), side).do("ages are wrong by that much here: mend the clock (NTP), or trust only what --observe saw")}
	}
	return []Finding{say(OK, "this machine's clock and the API server's agree to within %s", clockTolerance)}
}

func checkServers(c Cluster) []Finding {
	if c.Slices.Unknown != "" {
		return unread("how many API servers there are", c.Slices.Unknown)
	}
	servers := Ready(c.Slices.Value)
	through := "; this was asked through " + c.Address
	switch len(servers) {
	case 0:
		return []Finding{say(Note, "the Service kubernetes lists no API server%s", through)}
	case 1:
		return []Finding{say(Note, "there is one API server, %s%s", servers[0], through).do("while it is away no lease can be renewed: leaders stop after RenewDeadline")}
	}
	return []Finding{say(OK, "there are %d API servers, %s%s", len(servers), list(servers), through)}
}

// Ready returns the addresses of endpoints that are ready, sorted.
func Ready(all []discoveryv1.EndpointSlice) []string {
	var addresses []string
	for _, s := range all {
		port := ""
		if len(s.Ports) > 0 && s.Ports[0].Port != nil {
			port = fmt.Sprintf(":%d", *s.Ports[0].Port)
		}
		for _, e := range s.Endpoints {
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				addresses = append(addresses, e.Addresses[0]+port)
			}
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// counted are the names by which quotas count Leases and ConfigMaps.
var counted = map[corev1.ResourceName]string{
	"count/leases.coordination.k8s.io": "Leases",
	"count/configmaps":                 "ConfigMaps",
	corev1.ResourceConfigMaps:          "ConfigMaps",
}

func checkQuotas(c Cluster) []Finding {
	if c.Quotas.Unknown != "" {
		return unread("whether a quota is used up", c.Quotas.Unknown)
	}
	var all []Finding
	for _, q := range c.Quotas.Value {
		for name, hard := range q.Status.Hard {
			if used := q.Status.Used[name]; counted[name] != "" && used.Cmp(hard) >= 0 {
				all = append(all, c.usedUp(q.Name, counted[name], hard))
			}
		}
	}
	slices.SortFunc(all, func(a, b Finding) int { return strings.Compare(a.Text, b.Text) })
	if len(all) == 0 {
		all = append(all, say(OK, "no quota for Leases or ConfigMaps is used up"))
	}
	return all
}

func (c Cluster) usedUp(quota, kind string, hard resource.Quantity) Finding {
	result, effect := Note, "zonelect creates ConfigMaps only during a migration"
	switch {
	case kind == "Leases" && c.Creates, kind == "ConfigMaps" && c.Legacy:
		result, effect = Problem, "the lock cannot be created"
	case kind == "Leases":
		result, effect = Warning, "new candidates cannot announce themselves, and a deleted lock cannot be created again"
	}
	return say(result, "quota %s allows %s %s, and all are used: %s", quota, hard.String(), kind, effect).
		do("raise it: %s; each lock and each candidate needs a Lease", kubectl(c.Namespace, "edit resourcequota %s", named(quota, "QUOTA")))
}

// FlowSchema is the one that config/cluster/flowcontrol makes, and flowcontrol the command that does.
const (
	FlowSchema  = "operator-leases"
	flowcontrol = "'kubectl apply -k https://github.com/zonelect/zonelect//config/cluster/flowcontrol'"
)

func checkFlowControl(c Cluster) []Finding {
	var all []Finding
	if c.Shed {
		all = append(all, say(Problem, "the API server sheds load: it answered 429 to a request for Leases").do("find the busy client, and see below whether renewals have a queue of their own: 'kubectl get --raw /debug/api_priority_and_fairness/dump_priority_levels'"))
	}
	schema := c.FlowSchema.Value
	switch {
	case c.FlowSchema.Unknown != "":
		return append(all, unread("whether requests for Leases have a FlowSchema of their own", c.FlowSchema.Unknown)...)
	case schema == nil:
		return append(all, say(Note, "there is no FlowSchema %s: renewals share a queue with all service accounts", FlowSchema).do("a busy client can delay them until a term is lost: %s", flowcontrol))
	}
	for _, condition := range schema.Status.Conditions {
		if condition.Type == flowcontrolv1.FlowSchemaConditionDangling && condition.Status == flowcontrolv1.ConditionTrue {
			return append(all, say(Warning, "FlowSchema %s has no effect: its priority level %s does not exist", FlowSchema, schema.Spec.PriorityLevelConfiguration.Name).do(flowcontrol))
		}
	}
	return append(all, say(OK, "FlowSchema %s gives renewals a queue of their own", FlowSchema))
}
