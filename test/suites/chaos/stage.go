// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

// stage is one run: its groups in a namespace of their own.
type stage struct {
	bed       *testbed.Testbed
	plan      plan
	namespace string
	groups    []*group

	mu    sync.Mutex
	pods  map[string]*corev1.Pod
	dark  map[string]bool // zones whose power is cut
	asked int             // the number of the zone whose apiserver is asked next
}

func newStage(bed *testbed.Testbed, p plan) *stage {
	s := &stage{bed: bed, plan: p, namespace: fmt.Sprintf("chaos-%d", p.Index), pods: map[string]*corev1.Pod{}, dark: map[string]bool{}}
	s.groups = newGroups(s)
	return s
}

// prepare creates everything that candidates need to start.
func (s *stage) prepare(ctx context.Context) error {
	err := s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("make the namespace: %w", err)
	}
	return s.each(func(g *group) error {
		for _, zone := range zones {
			if err := s.writeKubeconfig(g, zone); err != nil {
				return err
			}
		}
		return s.grant(ctx, g)
	})
}

func (s *stage) pod(g *group, zone string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[g.podName(zone)]
}

// seatAll seats the candidates: those of the first zone begin to lead before the
// others come, so that all groups have their leader there.
func (s *stage) seatAll(ctx context.Context) error {
	order := startingWith(s.plan.Zone)
	if err := s.seat(ctx, order[0], "leading"); err != nil {
		return err
	}
	var all errgroup.Group
	for _, zone := range order[1:] {
		all.Go(func() error { return s.seat(ctx, zone, "following") })
	}
	return all.Wait()
}

// seat seats a zone's candidates, and waits until each has printed that event.
func (s *stage) seat(ctx context.Context, zone, event string) error {
	err := s.each(func(g *group) error {
		// Not earlier: a pod without a candidate could be a legacy one.
		if err := g.addPod(ctx, zone); err != nil {
			return err
		}
		one, err := g.start(ctx, zone)
		if err != nil {
			return err
		}
		_, err = one.Await(ctx, event, time.Time{})
		return err
	})
	if err != nil {
		return fmt.Errorf("seat the candidates of zone %s: %w", zone, err)
	}
	return nil
}

// startingWith returns the zones in turn, from one of them on.
func startingWith(zone string) []string {
	for i := range zones {
		if zones[i] == zone {
			return append(append([]string(nil), zones[i:]...), zones[:i]...)
		}
	}
	return zones
}

// restartCandidates starts a candidate wherever one is gone, as kubelets do.
func (s *stage) restartCandidates(ctx context.Context) error {
	return s.each(func(g *group) error {
		for _, zone := range zones {
			if g.seat(zone).alive() {
				continue
			}
			if _, err := g.start(ctx, zone); err != nil {
				return err
			}
		}
		return nil
	})
}

// dismiss ends all candidates in good order, and reports each that did not.
func (s *stage) dismiss(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var all errgroup.Group
	for _, g := range s.groups {
		for _, one := range g.all() {
			if !one.alive() {
				continue
			}
			all.Go(func() error {
				err := one.terminate(ctx)
				if err == nil {
					err = one.Wait(ctx)
				}
				if err != nil && (one.alive() || one.exit().wrong() != "") {
					one.end(time.Now())
					return errors.Join(fmt.Errorf("%s did not end in good order: %w", one.Identity, err), one.Kill())
				}
				return nil
			})
		}
	}
	return all.Wait()
}

// leaderZone is the zone of the first group's leader; if nobody leads now, it
// is the zone where all leaders were at first.
func (s *stage) leaderZone() string {
	if leader, err := s.groups[0].leader(); err == nil {
		return leader.Zone
	}
	return s.plan.Zone
}

// each calls do for all groups at once.
func (s *stage) each(do func(*group) error) error {
	var all errgroup.Group
	for _, g := range s.groups {
		all.Go(func() error { return do(g) })
	}
	return all.Wait()
}

// ask asks one apiserver after the other, because one may be away, until it
// works or ctx ends, or 20 seconds are over.
func (s *stage) ask(ctx context.Context, do func(context.Context, kubernetes.Interface) error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		s.mu.Lock()
		s.asked++
		zone := zones[s.asked%len(zones)]
		s.mu.Unlock()
		cfg := s.bed.Cluster.RESTConfig(zone)
		cfg.Timeout = 2 * time.Second
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return err
		}
		if err = do(ctx, client); err == nil || apierrors.IsAlreadyExists(err) {
			return nil // it may come from an attempt whose answer was lost
		}
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return err
		}
		if over := sleep.For(ctx, 20*time.Millisecond); over != nil {
			return fmt.Errorf("%w: no apiserver does what is asked: %w", errMissed, err)
		}
	}
}

// grant gives a group's user the rights that config/operator gives to operators, and
// the right to write the register.
func (s *stage) grant(ctx context.Context, g *group) error {
	root, err := testbed.Root()
	if err != nil {
		return err
	}
	for _, name := range g.roles {
		rules, err := rulesOf(filepath.Join(root, "config", "operator", name, "role.yaml"))
		if err != nil {
			return err
		}
		for i := range rules {
			if len(rules[i].ResourceNames) > 0 { // the sample's lock
				rules[i].ResourceNames = []string{g.name}
			}
		}
		if err := s.bind(ctx, g, g.name+"-"+name, rules); err != nil {
			return err
		}
	}
	return s.bind(ctx, g, g.register(), []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"patch"}, ResourceNames: []string{g.register()}},
	})
}

// rulesOf are the rules of the Role in a file.
func rulesOf(file string) ([]rbacv1.PolicyRule, error) {
	data, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(data, 1<<16); ; {
		var role rbacv1.Role
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("there is no Role in %s", file)
		} else if err != nil {
			return nil, fmt.Errorf("read the Role in %s: %w", file, err)
		}
		if role.Kind == "Role" {
			return role.Rules, nil
		}
	}
}

func (s *stage) bind(ctx context.Context, g *group, name string, rules []rbacv1.PolicyRule) error {
	meta := metav1.ObjectMeta{Name: name}
	return s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.RbacV1().Roles(s.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		_, err = c.RbacV1().RoleBindings(s.namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: g.name}},
		}, metav1.CreateOptions{})
		return err
	})
}

// user is the name of a group's candidates for the API server.
func (s *stage) user(g *group) string {
	return "system:serviceaccount:" + s.namespace + ":" + g.name
}

func (s *stage) kubeconfig(g *group, zone string) string {
	return filepath.Join(s.bed.Dir(), zone, s.namespace+"-"+g.name+".kubeconfig")
}

// writeKubeconfig writes a kubeconfig with which programs of the zone are the
// group's user.
func (s *stage) writeKubeconfig(g *group, zone string) error {
	config, err := clientcmd.LoadFromFile(s.bed.Cluster.Kubeconfig(zone))
	if err != nil {
		return fmt.Errorf("read the kubeconfig of zone %s: %w", zone, err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = s.user(g)
	}
	if err := clientcmd.WriteToFile(*config, s.kubeconfig(g, zone)); err != nil {
		return fmt.Errorf("write the kubeconfig of %s: %w", g.name, err)
	}
	return nil
}

// clear removes what the run has left on the API server. The rest goes away by
// itself.
func (s *stage) clear(ctx context.Context) error {
	return s.ask(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		err := c.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}
