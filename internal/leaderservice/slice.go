// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderservice

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zonelect/zonelect/internal/record"
)

// ManagedBy is the slice's label of that name. The controllers of Kubernetes leave slices of
// others alone.
const ManagedBy = "zonelect.dev"

// Endpoint is the pod that a Service is to point to.
type Endpoint struct {
	IP                     string // required
	Namespace, Pod, PodUID string
	Node, Zone             string

	addressType discoveryv1.AddressType
}

// checked returns the endpoint with what follows from its IP.
func (e Endpoint) checked() (Endpoint, error) {
	ip, err := netip.ParseAddr(e.IP)
	if err != nil {
		return Endpoint{}, fmt.Errorf("the pod's IP %q is none: set POD_IP by the downward API (fieldRef status.podIP)", e.IP)
	}
	ip = ip.Unmap() // an EndpointSlice takes no IPv4 address in the form of IPv6
	if ip.Zone() != "" || ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() {
		return Endpoint{}, fmt.Errorf("the pod's IP %s cannot be reached from elsewhere: set POD_IP by the downward API (fieldRef status.podIP)", e.IP)
	}
	e.IP, e.addressType = ip.String(), discoveryv1.AddressTypeIPv4
	if ip.Is6() {
		e.addressType = discoveryv1.AddressTypeIPv6
	}
	return e, nil
}

// checkService says why no Service can have that name.
func checkService(name string) error {
	if faults := validation.IsDNS1123Label(name); name != "" && len(faults) > 0 {
		return fmt.Errorf("no Service can have that name: %s", strings.Join(faults, "; "))
	}
	return nil
}

// sliceName is the one slice of a Service. There is one, so that one write replaces one leader
// by the next.
func sliceName(service string) string { return service + "-zonelect" }

// wanted is the slice that points a Service to an endpoint, in place of another that may be nil.
func (e Endpoint) wanted(service *corev1.Service, old *discoveryv1.EndpointSlice, labels map[string]string, token uint64) (*discoveryv1.EndpointSlice, error) {
	ports, err := portsOf(service)
	if err = errors.Join(err, e.checkFamily(service)); err != nil {
		return nil, err
	}
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: sliceName(service.Name)}}
	if old != nil {
		s = old.DeepCopy()
	}
	record.SetLabels(s, labels)
	metav1.SetMetaDataLabel(&s.ObjectMeta, discoveryv1.LabelServiceName, service.Name)
	metav1.SetMetaDataLabel(&s.ObjectMeta, discoveryv1.LabelManagedBy, ManagedBy)
	noteToken(s, token)
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID}}
	s.AddressType, s.Ports, s.Endpoints = e.addressType, ports, []discoveryv1.Endpoint{e.endpoint()}
	return s, nil
}

func (e Endpoint) endpoint() discoveryv1.Endpoint {
	yes, no := true, false
	one := discoveryv1.Endpoint{
		Addresses:  []string{e.IP},
		Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
	}
	if e.Pod != "" {
		one.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: e.Namespace, Name: e.Pod, UID: types.UID(e.PodUID)}
	}
	if e.Node != "" {
		one.NodeName = &e.Node
	}
	if e.Zone != "" {
		one.Zone = &e.Zone
	}
	return one
}

// portsOf returns the ports of a Service as a slice has them, or what is wrong with the Service.
func portsOf(service *corev1.Service) (all []discoveryv1.EndpointPort, err error) {
	switch {
	case len(service.Spec.Selector) > 0:
		return nil, fmt.Errorf("service %s has a selector, so Kubernetes points it to all pods that match: make another Service without one, because a Service that loses its selector keeps the endpoints that it has", service.Name)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return nil, fmt.Errorf("service %s is of type ExternalName, which has no endpoints: use ClusterIP", service.Name)
	}
	for _, p := range service.Spec.Ports {
		target := p.Port
		switch {
		case p.TargetPort.Type == intstr.String:
			return nil, fmt.Errorf("port %q of service %s names its target port %q: write the number, because nothing looks names up without a selector", p.Name, service.Name, p.TargetPort.StrVal)
		case p.TargetPort.IntVal != 0:
			target = p.TargetPort.IntVal
		}
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		all = append(all, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &protocol, Port: &target, AppProtocol: p.AppProtocol})
	}
	return all, nil
}

// checkFamily refuses a Service whose own addresses are all of the other family: nothing would
// route from those to this endpoint.
func (e Endpoint) checkFamily(service *corev1.Service) error {
	of := service.Spec.IPFamilies
	if len(of) == 0 || slices.Contains(of, corev1.IPFamily(e.addressType)) {
		return nil
	}
	return fmt.Errorf("service %s is for %s, and this pod has an %s address: set spec.ipFamilies, or spec.ipFamilyPolicy to PreferDualStack", service.Name, of[0], e.addressType)
}

// noteToken notes the term that a slice points to.
func noteToken(s *discoveryv1.EndpointSlice, token uint64) {
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, record.AnnotationToken, strconv.FormatUint(token, 10))
}

// tokenOf returns the token of the term that a slice points to; zero if it is none, because
// somebody else wrote it.
func tokenOf(s *discoveryv1.EndpointSlice) uint64 {
	if s == nil {
		return 0
	}
	token, err := strconv.ParseUint(s.Annotations[record.AnnotationToken], 10, 64)
	if err != nil {
		return 0
	}
	return token
}

// same reports whether two slices point to the same, as far as we write it.
func same(a, b *discoveryv1.EndpointSlice) bool {
	return a.AddressType == b.AddressType && equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		a.Annotations[record.AnnotationToken] == b.Annotations[record.AnnotationToken] &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) &&
		equality.Semantic.DeepEqual(a.Ports, b.Ports) && equality.Semantic.DeepEqual(a.Endpoints, b.Endpoints)
}
