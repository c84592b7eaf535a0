// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/locks"
)

// Self is the identity of this process. It is a value; fields that are not known are empty,
// except Identity.
type Self struct {
	// Identity is unique to this start of this process, and readable for people: <pod
	// name>_<start of the pod's UID>_<nonce>, or <host>_<user>_<nonce> outside a cluster.
	Identity  string
	PodName   string // empty outside a cluster
	PodUID    string
	Namespace string // of the pod, or of the kubeconfig's current context
	Node      string
	Zone      string
	Found     Found
}

// Found says whence the fields of a [Self] come; those that are not known come from nowhere.
type Found struct{ Pod, PodUID, Node, Zone Source }

// Source is whence something is known, for people.
type Source string

// The sources, the first that says something counts.
const (
	FromOption      Source = "option"
	FromToken       Source = "token" // the claims of the token that this process shows the API server
	FromEnvironment Source = "environment"
	FromHost        Source = "host name" // for the pod's name
	FromNode        Source = "node"      // its label, for the zone
)

// Candidate returns s in the form that election.Config takes.
func (s Self) Candidate() locks.Candidate {
	c := locks.Candidate{Identity: s.Identity, Zone: s.Zone, Node: s.Node}
	if s.PodName != "" {
		c.Pod = locks.Pod{Name: s.PodName, UID: s.PodUID}
	}
	return c
}

// Known says what WhoAmI need not find out. Every field that is set overrides the
// environment. It has the fields of operator.SelfOptions.
type Known struct {
	Identity  string // must be unique per process start; zero makes one up
	PodName   string
	PodUID    string
	Namespace string
	Node      string
	Zone      string
}

// The environment of a pod, as WhoAmI reads it.
const (
	envPodName   = "POD_NAME"
	envPodUID    = "POD_UID"
	envNamespace = "POD_NAMESPACE"
	envNode      = "NODE_NAME"
	envZone      = "NODE_ZONE"
	envInCluster = "KUBERNETES_SERVICE_HOST"
)

// What the machine says of a process. Tests put their own here, so that they pass in a pod.
var (
	hostName        = os.Hostname
	namespaceFile   = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	mountsFile      = "/proc/self/mountinfo"
	inClusterConfig = rest.InClusterConfig
)

// WhoAmI finds out the identity of this process, in a pod from the first of these that says it:
//
//  1. o;
//  2. the claims of the service account's token that cfg shows the API server, if it is bound to a
//     pod, and the mounts of this process are not of another one: the pod, its UID and namespace, and
//     since Kubernetes 1.30 its node;
//  3. environment variables, which the pod's template sets by the downward API:
//
// POD_NAME, POD_UID, POD_NAMESPACE and NODE_NAME (fieldRef metadata.name, metadata.uid,
// metadata.namespace and spec.nodeName); and NODE_ZONE (the zone, or fieldRef
// metadata.labels['topology.kubernetes.io/zone'], which API servers set since Kubernetes 1.35).
// POD_NAMESPACE comes before the token, because locks are there, and all candidates must agree on that.
// Last come the host name for the pod's name, and the namespace that is mounted with the service account.
//
// A process is in a pod if POD_NAME or KUBERNETES_SERVICE_HOST is set, or PodName in o. Outside, the
// identity is made of the host's name and the kubeconfig's user, and the namespace is the
// kubeconfig's.
//
// A zone that neither o nor NODE_ZONE says is the node's label, which is read by cfg, and needs the
// permission to get nodes. A failure to read it is not an error: the zone is empty then, and
// [Environment.WatchZone] asks again. Requests are bounded by ctx and by some seconds. The log says
// what was found and whence, what could not be found out, and how to change that. WhoAmI fails if
// the machine has no name.
func WhoAmI(ctx context.Context, cfg *rest.Config, log logr.Logger, o Known) (Self, error) {
	s := Self{Identity: o.Identity, Namespace: o.Namespace}
	host, err := hostName()
	if err != nil {
		return Self{}, fmt.Errorf("finding out who this process is: reading the host name: %w", err)
	}
	if o.PodName != "" || os.Getenv(envPodName) != "" || os.Getenv(envInCluster) != "" {
		s.inPod(cfg, log, o, host)
	} else {
		s.outside(log, o, host)
	}
	if s.Zone, s.Found.Zone = first(said{o.Zone, FromOption}, said{os.Getenv(envZone), FromEnvironment}); s.Zone == "" {
		s.findZone(ctx, cfg, log)
	}
	log.Info("this process takes part in elections", "identity", s.Identity, "namespace", s.Namespace,
		"pod", s.PodName, "podFrom", s.Found.Pod, "podUID", s.PodUID, "podUIDFrom", s.Found.PodUID, "node", s.Node, "nodeFrom", s.Found.Node,
		"zone", s.Zone, "zoneFrom", s.Found.Zone)
	return s, nil
}

// said is something that a source says; nothing if the text is empty.
type said struct {
	text string
	from Source
}

// first returns the first that says something.
func first(all ...said) (string, Source) {
	for _, s := range all {
		if s.text != "" {
			return s.text, s.from
		}
	}
	return "", ""
}

// named is a pod as a source names it. A UID without a name is of the pod that another source names.
type named struct {
	name, uid string
	from      Source
}

// inPod fills in what a pod knows about itself.
func (s *Self) inPod(cfg *rest.Config, log logr.Logger, o Known, host string) {
	option := named{o.PodName, o.PodUID, FromOption}
	env := named{os.Getenv(envPodName), os.Getenv(envPodUID), FromEnvironment}
	token := fromToken(cfg)
	mounts, _ := os.ReadFile(mountsFile) // elsewhere than on Linux there is none
	if in := mountedPod(string(mounts)); in != "" && token.Pod.UID != "" && in != token.Pod.UID {
		log.Info("the token of this process is bound to another pod than it runs in, as one that was copied: that pod does not count",
			"pod", token.Pod.Name, "uid", token.Pod.UID, "runsIn", in)
		token = bound{}
	}
	own := named{token.Pod.Name, token.Pod.UID, FromToken}
	if s.is(option, own, env, named{name: host, from: FromHost}); s.Found.Pod == FromHost {
		log.Info("nothing names the pod: taking the host name for its name, which is wrong with hostNetwork; mount the token of the service account, or set POD_NAME by the downward API (fieldRef metadata.name)", "hostName", host)
	}
	if own.name != "" && (env.name != "" && env.name != own.name || env.uid != "" && env.uid != own.uid) {
		log.Info("the environment names another pod than the token of this process: what the token says counts; set POD_NAME and POD_UID by the downward API, or not at all",
			"pod", own.name, "uid", own.uid, "POD_NAME", env.name, "POD_UID", env.uid)
	}
	if s.PodUID == "" {
		log.Info("the pod's UID is not known: status cannot tell whether this pod is ready, and a migration off leader-for-life fails; mount the token of the service account, or set POD_UID by the downward API (fieldRef metadata.uid)")
	}
	if token.Pod.Name != s.PodName {
		token = bound{} // the program says that this process is of another pod
	}
	s.Node, s.Found.Node = first(said{o.Node, FromOption}, said{token.Node.Name, FromToken}, said{os.Getenv(envNode), FromEnvironment})
	if env := os.Getenv(envNamespace); env != "" && token.Namespace != "" && env != token.Namespace {
		log.Info("POD_NAMESPACE is not the namespace of the pod: the lock is there, and this candidate is not seen", "POD_NAMESPACE", env, "pod's", token.Namespace)
	}
	if s.Namespace = cmp.Or(s.Namespace, os.Getenv(envNamespace), token.Namespace, podNamespace()); s.Namespace == "" {
		log.Info("the pod's namespace is not known: set POD_NAMESPACE by the downward API (fieldRef metadata.namespace)")
	}
	s.identify(s.PodName, s.PodUID[:min(8, len(s.PodUID))])
}

// is sets the pod that the first of the sources names, and the UID that the first of them says which
// names no other pod.
func (s *Self) is(all ...named) {
	for _, n := range all {
		if s.PodName == "" && n.name != "" {
			s.PodName, s.Found.Pod = n.name, n.from
		}
	}
	for _, n := range all {
		if s.PodUID == "" && n.uid != "" && (n.name == "" || n.name == s.PodName) {
			s.PodUID, s.Found.PodUID = n.uid, n.from
		}
	}
}

// outside fills in what is known on a machine outside a cluster.
func (s *Self) outside(log logr.Logger, o Known, host string) {
	user, namespace := kubeconfigUser()
	s.Namespace = cmp.Or(s.Namespace, namespace)
	s.Node, s.Found.Node = first(said{o.Node, FromOption}, said{os.Getenv(envNode), FromEnvironment})
	log.Info("not in a pod (neither POD_NAME nor KUBERNETES_SERVICE_HOST is set): taking part under the names of the host and of the kubeconfig's user", "hostName", host, "user", user, "namespace", s.Namespace)
	s.identify(host, user)
}

// identify sets the identity, if it is not given, from readable parts and a nonce, because
// no name is unique to one start of a process.
func (s *Self) identify(parts ...string) {
	if s.Identity != "" {
		return
	}
	nonce := make([]byte, 4)
	_, _ = rand.Read(nonce) // it never fails
	for _, part := range append(parts, hex.EncodeToString(nonce)) {
		if part = readable(part); part != "" {
			s.Identity = strings.TrimPrefix(s.Identity+"_"+part, "_")
		}
	}
}

// readable replaces characters that would make an identity hard to read or to split. A pod's name is not
// too long.
func readable(part string) string {
	part = strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, part)
	return part[:min(253, len(part))]
}

// podNamespace returns the namespace of this pod, or "" where it is not known.
func podNamespace() string {
	if ns := os.Getenv(envNamespace); ns != "" {
		return ns
	}
	raw, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "" // no service account is mounted
	}
	return strings.TrimSpace(string(raw))
}
