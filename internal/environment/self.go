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
	"regexp"
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
}

// Candidate returns s in the form that election.Config takes.
func (s Self) Candidate() locks.Candidate {
	return locks.Candidate{Identity: s.Identity, Zone: s.Zone, Node: s.Node, Pod: locks.Pod{Name: s.PodName, UID: s.PodUID}}
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
//  1. known;
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
// A process is in a pod if POD_NAME or KUBERNETES_SERVICE_HOST is set, or PodName in known. Outside, the
// identity is made of the host's name and the kubeconfig's user, and the namespace is the
// kubeconfig's.
//
// A zone that neither known nor NODE_ZONE says is the node's label, which is read by cfg, and needs the
// permission to get nodes. A failure to read it is not an error: the zone is empty then, and
// [Environment.WatchZone] asks again. Requests are bounded by ctx and by some seconds. The log says
// what was found, what could not be found out, and how to change that. WhoAmI fails if the machine has
// no name.
func WhoAmI(ctx context.Context, cfg *rest.Config, log logr.Logger, known Self) (Self, error) {
	s := known
	host, err := hostName()
	if err != nil {
		return Self{}, fmt.Errorf("identifying this process: reading the host name: %w", err)
	}
	if s.PodName != "" || os.Getenv(envPodName) != "" || os.Getenv(envInCluster) != "" {
		s.inPod(cfg, log, host)
	} else {
		s.outside(log, host)
	}
	if s.Zone = cmp.Or(s.Zone, os.Getenv(envZone)); s.Zone == "" {
		if s.Zone, err = lookup(ctx, cfg, s.Node, startPatience); err != nil && ctx.Err() == nil {
			log.Info("continuing without a zone: this candidate is in no preferred zone", "reason", err.Error())
		}
	}
	log.Info("this process takes part in elections", "identity", s.Identity, "namespace", s.Namespace,
		"pod", s.PodName, "podUID", s.PodUID, "node", s.Node, "zone", s.Zone)
	return s, nil
}

// named is an object as a source names it. A UID without a name is of the object that another source names.
type named struct{ Name, UID string }

// inPod fills in what a pod knows about itself.
func (s *Self) inPod(cfg *rest.Config, log logr.Logger, host string) {
	token, env := fromToken(cfg), named{os.Getenv(envPodName), os.Getenv(envPodUID)}
	mounts, _ := os.ReadFile(mountsFile) // elsewhere than on Linux there is none
	if in := mountedPod(string(mounts)); in != "" && token.Pod.UID != "" && in != token.Pod.UID {
		log.Info("the token names another pod than the one this process runs in, as a copied token does: ignoring that pod",
			"uid", token.Pod.UID, "runsIn", in)
		token = bound{}
	}
	if s.PodName = cmp.Or(s.PodName, token.Pod.Name, env.Name); s.PodName == "" {
		log.Info("the pod's name is not known: using the host name, which is wrong with hostNetwork; " + remedy("POD_NAME", "name"))
		s.PodName = host
	}
	if own := token.Pod; own.Name != "" && (env.Name != "" && env.Name != own.Name || env.UID != "" && env.UID != own.UID) {
		log.Info("POD_NAME or POD_UID names another pod than the token does: the token counts; set both by the downward API, or neither",
			"pod", own.Name, "POD_NAME", env.Name, "POD_UID", env.UID)
	}
	for _, n := range []named{token.Pod, env} {
		if n.Name == "" || n.Name == s.PodName {
			s.PodUID = cmp.Or(s.PodUID, n.UID)
		}
	}
	if s.PodUID == "" {
		log.Info("the pod's UID is not known: status cannot tell whether this pod is ready, and a migration off leader-for-life fails; " +
			remedy("POD_UID", "uid"))
	}
	if token.Pod.Name != s.PodName {
		token = bound{} // the program says that this process is of another pod
	}
	s.Node = cmp.Or(s.Node, token.Node.Name, os.Getenv(envNode))
	if env := os.Getenv(envNamespace); env != "" && token.Namespace != "" && env != token.Namespace {
		log.Info("the lock is in POD_NAMESPACE, which is not the pod's namespace: other candidates cannot see this one",
			"POD_NAMESPACE", env, "pod's", token.Namespace)
	}
	mounted, _ := os.ReadFile(namespaceFile) // none without a service account
	s.Namespace = cmp.Or(s.Namespace, os.Getenv(envNamespace), token.Namespace, strings.TrimSpace(string(mounted)))
	if s.Namespace == "" {
		log.Info("the pod's namespace is not known: set POD_NAMESPACE by the downward API (fieldRef metadata.namespace)")
	}
	s.identify(s.PodName, s.PodUID[:min(8, len(s.PodUID))])
}

// outside fills in what is known on a machine outside a cluster.
func (s *Self) outside(log logr.Logger, host string) {
	user, namespace := kubeconfigUser()
	s.Namespace = cmp.Or(s.Namespace, namespace)
	s.Node = cmp.Or(s.Node, os.Getenv(envNode))
	log.Info("not in a pod: neither POD_NAME nor KUBERNETES_SERVICE_HOST is set", "user", user)
	s.identify(host, user)
}

// remedy says how a pod gets to know something of its metadata.
func remedy(variable, field string) string {
	return fmt.Sprintf("mount the token of the service account, or set %s by the downward API (fieldRef metadata.%s)", variable, field)
}

// unreadable are characters that would make an identity hard to read or to split.
var unreadable = regexp.MustCompile(`[^-.0-9A-Za-z]`)

// identify sets the identity, if it is not given, from readable parts and a nonce, because
// no name is unique to one start of a process.
func (s *Self) identify(parts ...string) {
	if s.Identity != "" {
		return
	}
	nonce := make([]byte, 4)
	_, _ = rand.Read(nonce) // it never fails
	for _, part := range append(parts, hex.EncodeToString(nonce)) {
		if part != "" {
			part = unreadable.ReplaceAllString(part[:min(253, len(part))], "-") // a pod's name is not longer
			s.Identity = strings.TrimPrefix(s.Identity+"_"+part, "_")
		}
	}
}
