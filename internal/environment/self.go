// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/internal/patience"
	"github.com/zonelect/zonelect/internal/transport"
	"github.com/zonelect/zonelect/locks"
	"github.com/zonelect/zonelect/zone"
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
	Container string
	Zone      string
	IP        string // of the pod
}

// PatienceOf is how long a read may take that only adds to an election of that timing: as long as
// one of the elector, whose dial and whose answer may take a RenewDeadline each.
func PatienceOf(t timing.Timing) time.Duration { return 2 * t.RenewDeadline }

// Candidate returns s in the form that election.Config takes.
func (s Self) Candidate() locks.Candidate {
	c := locks.Candidate{Identity: s.Identity, Zone: s.Zone, Node: s.Node, Container: s.Container}
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
	Container string
	Zone      string
	IP        string // of the pod; only operator.Options.LeaderService needs it

	// Kubeconfig is the path of a kubeconfig, used outside a cluster for the
	// user's name and the namespace. Zero means KUBECONFIG or ~/.kube/config.
	Kubeconfig string
}

// The environment of a pod, as WhoAmI reads it.
const (
	envPodName   = "POD_NAME"
	envPodUID    = "POD_UID"
	envNamespace = "POD_NAMESPACE"
	envNode      = "NODE_NAME"
	envContainer = "CONTAINER_NAME"
	envZone      = "NODE_ZONE"
	envPodIP     = "POD_IP"
	envInCluster = "KUBERNETES_SERVICE_HOST"
)

// The files of a mounted service account. Tests put their own here, so that they pass in a
// pod.
var (
	namespaceFile   = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	inClusterConfig = rest.InClusterConfig
)

// WhoAmI finds out the identity of this process. In a pod it reads environment variables that
// the pod's template sets by the downward API:
//
//	POD_NAME        fieldRef metadata.name       (else the host name)
//	POD_UID         fieldRef metadata.uid
//	POD_NAMESPACE   fieldRef metadata.namespace  (else the service account's)
//	NODE_NAME       fieldRef spec.nodeName
//	CONTAINER_NAME  value: the container's name
//	NODE_ZONE       optional: the zone, if it need not be looked up
//	POD_IP          fieldRef status.podIP; only operator.Options.LeaderService needs it
//
// A process is in a pod if POD_NAME or KUBERNETES_SERVICE_HOST is set, or
// PodName in o. Outside, the identity is made of the host's name and the
// kubeconfig's user, and the namespace is the kubeconfig's; the log says so.
//
// The zone is the node's label, which is read by cfg, and needs the permission to get nodes.
// A failure to read it is no error: the zone is empty then, and the log says what is missing.
// The request is bounded by ctx and by some seconds. The log also says what else could not be
// found out, and how to change that. WhoAmI fails if no name can be found, or the kubeconfig
// cannot be read.
func WhoAmI(ctx context.Context, cfg *rest.Config, log logr.Logger, o Known) (Self, error) {
	s := Self{
		Identity:  o.Identity,
		PodName:   cmp.Or(o.PodName, os.Getenv(envPodName)),
		PodUID:    cmp.Or(o.PodUID, os.Getenv(envPodUID)),
		Namespace: o.Namespace,
		Node:      cmp.Or(o.Node, os.Getenv(envNode)),
		Container: cmp.Or(o.Container, os.Getenv(envContainer)),
		IP:        cmp.Or(o.IP, os.Getenv(envPodIP)),
	}
	var err error
	if s.PodName != "" || os.Getenv(envInCluster) != "" {
		s, err = s.inPod(log)
	} else {
		s, err = s.outside(log, o.Kubeconfig)
	}
	if err != nil {
		return Self{}, fmt.Errorf("finding out who this process is: %w", err)
	}
	s.Zone = cmp.Or(o.Zone, os.Getenv(envZone))
	if s.Zone == "" {
		s.Zone = zoneOf(ctx, cfg, log, s.Node)
	}
	log.V(1).Info("this process takes part in elections", "identity", s.Identity, "namespace", s.Namespace, "node", s.Node, "zone", s.Zone)
	return s, nil
}

// inPod fills in what a pod knows about itself.
func (s Self) inPod(log logr.Logger) (Self, error) {
	if s.PodName == "" {
		name, err := hostName()
		if err != nil {
			return s, fmt.Errorf("set POD_NAME by the downward API (fieldRef metadata.name): %w", err)
		}
		s.PodName = name
		log.Info("POD_NAME is not set: taking the host name for the pod's, which is wrong with hostNetwork; set it by the downward API (fieldRef metadata.name)", "hostName", name)
	}
	if s.PodUID == "" {
		log.Info("POD_UID is not set: nobody can prove from the record that this pod is gone; set it by the downward API (fieldRef metadata.uid)")
	}
	if s.Namespace = cmp.Or(s.Namespace, podNamespace()); s.Namespace == "" {
		log.Info("the pod's namespace is not known: set POD_NAMESPACE by the downward API (fieldRef metadata.namespace)")
	}
	return s.identified(s.PodName, s.PodUID[:min(8, len(s.PodUID))])
}

// outside fills in what is known on a machine outside a cluster.
func (s Self) outside(log logr.Logger, kubeconfigPath string) (Self, error) {
	host, err := hostName()
	if err != nil {
		return s, err
	}
	user, namespace, err := kubeconfigUser(kubeconfigPath)
	if err != nil {
		return s, err
	}
	s.Namespace = cmp.Or(s.Namespace, namespace)
	log.Info("not in a pod (neither POD_NAME nor KUBERNETES_SERVICE_HOST is set): taking part under the names of the host and of the kubeconfig's user", "hostName", host, "user", user, "namespace", s.Namespace)
	return s.identified(host, user)
}

// identified sets the identity, if it is not given, from readable parts and a nonce, because
// no name is unique to one start of a process.
func (s Self) identified(parts ...string) (Self, error) {
	if s.Identity != "" {
		return s, nil
	}
	nonce := make([]byte, 4)
	if _, err := rand.Read(nonce); err != nil {
		return s, fmt.Errorf("making up an identity: %w", err)
	}
	for _, part := range append(parts, hex.EncodeToString(nonce)) {
		if part = readable(part); part != "" {
			s.Identity = strings.TrimPrefix(s.Identity+"_"+part, "_")
		}
	}
	return s, nil
}

// partMost is the longest part of an identity; a pod's name fits.
const partMost = 253

// readable replaces characters that would make an identity hard to read or to split.
func readable(part string) string {
	part = strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, part)
	return part[:min(partMost, len(part))]
}

func hostName() (string, error) {
	if name := os.Getenv("HOSTNAME"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err == nil && name == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", fmt.Errorf("reading the host name: %w", err)
	}
	return name, nil
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

// zonePatience bounds the lookup: an election without a zone is better than an election that
// has not begun. It is that of an election with the default timing, which could not begin either
// behind a server that is slower. Another connection is tried after zoneOvertakes.
var zonePatience, zoneOvertakes = PatienceOf(timing.Timing{}.WithDefaults()), timing.DefaultRenewInterval

// zoneOf returns the zone of a node, or "" after it has logged why.
func zoneOf(ctx context.Context, cfg *rest.Config, log logr.Logger, node string) string {
	z, err := lookup(ctx, cfg, node)
	if err != nil && ctx.Err() == nil { // who is told to end goes nowhere
		log.Info("going on without a zone: leadership will not be placed by zone; mend the reason or set NODE_ZONE, and then start this process again: it looks once", "reason", err.Error())
	}
	return z
}

// lookup reads the node's zone on connections that are closed afterwards.
func lookup(ctx context.Context, cfg *rest.Config, node string) (string, error) {
	if node == "" {
		return "", errors.New("the node is not known: set NODE_NAME by the downward API (fieldRef spec.nodeName)")
	}
	if cfg == nil {
		return "", errors.New("there is no configuration to reach the API server with")
	}
	cfg = Named(cfg)
	tr, err := transport.New(cfg, transport.Options{})
	if err != nil {
		return "", fmt.Errorf("looking up the zone of node %q: %w", node, err)
	}
	defer tr.CloseConnections()
	client, err := restClient(cfg, tr, "/api", corev1.SchemeGroupVersion, corev1.AddToScheme)
	if err != nil {
		return "", fmt.Errorf("looking up the zone of node %q: %w", node, err)
	}
	return patience.Ask(ctx, zoneOvertakes, zonePatience, func(ctx context.Context) (string, error) {
		return zone.Lookup(ctx, client, node)
	})
}
