// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks/ownerref"
)

// absent is the error for a lock that does not exist.
func (c cluster) absent(ctx context.Context, name string) error {
	unknown, err := c.checkNamespace(ctx, "; ")
	if err != nil {
		return err
	}
	guess := c.meant(ctx, name)
	if guess != "" {
		guess += " If not, "
	}
	return fmt.Errorf("there is no lock %s in namespace %s, neither a Lease nor a leader-for-life ConfigMap: %scheck the name and -n, or list all locks with 'kubectl zonelect status -A'; the first candidate to campaign creates the Lease%s", name, c.namespace, guess, unknown)
}

// meant asks whether somebody who named a lock that does not exist meant one of that name
// elsewhere, or one with a similar name here. It is empty if there is none, as far as this user may
// look.
func (c cluster) meant(ctx context.Context, name string) string {
	if found := c.elsewhere(ctx, name); len(found) > 0 {
		return fmt.Sprintf("did you mean the one in namespace %s?", strings.Join(found[:min(len(found), 3)], " or "))
	}
	names := legacyLocks(ctx, c)
	if list, err := c.Leases(ctx, c.namespace); err == nil {
		for _, e := range inspect.Among(list.Items) {
			names = append(names, e.Name)
		}
	}
	if found := nearest(name, names); found != "" {
		return fmt.Sprintf("did you mean %s?", found)
	}
	return ""
}

// elsewhere returns the namespaces that have a lock of that name.
func (c cluster) elsewhere(ctx context.Context, name string) []string {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil
	}
	var all []string
	add := func(namespace, found string) {
		if found == name && namespace != corev1.NamespaceNodeLease {
			all = append(all, namespace)
		}
	}
	named := "metadata.name=" + name
	var leases coordinationv1.LeaseList
	if err := rawapi.Request(c.Coordination, http.MethodGet, apierror.Leases, "").Param("fieldSelector", named).Do(ctx).Into(&leases); err == nil {
		for _, o := range leases.Items {
			add(o.Namespace, o.Name)
		}
	}
	var maps corev1.ConfigMapList
	if err := rawapi.Request(c.Core, http.MethodGet, apierror.ConfigMaps, "").Param("fieldSelector", named).Do(ctx).Into(&maps); err == nil {
		for _, o := range maps.Items {
			if ownerref.Recognize(&o).Kind == ownerref.Legacy {
				add(o.Namespace, o.Name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// mostEdits is by how many letters a name may differ from the one that was meant.
const mostEdits = 2

// nearest returns the name with the fewest letters to insert, remove or replace; empty if those
// are too many.
func nearest(name string, names []string) string {
	found, fewest := "", min(mostEdits+1, len(name))
	for _, other := range slices.Sorted(slices.Values(names)) {
		if longer := len(other) - len(name); max(longer, -longer) >= fewest {
			continue
		}
		if n := edits(name, other); n < fewest {
			found, fewest = other, n
		}
	}
	return found
}

// edits is the Levenshtein distance of two names.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal, row[j+1] = row[j+1], min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// legacyLocks returns the leader-for-life locks of the namespace; none if it may
// not list ConfigMaps.
func legacyLocks(ctx context.Context, c cluster) []string {
	var names []string
	q := rawapi.Query{Resource: apierror.ConfigMaps, Namespace: c.namespace}
	_, err := rawapi.ListEach(ctx, c.Core, q, func() { names = nil }, func(e rawapi.Event[*corev1.ConfigMap]) {
		if ownerref.Recognize(e.Object).Kind == ownerref.Legacy {
			names = append(names, e.Object.Name)
		}
	})
	if err != nil {
		return nil
	}
	return names
}
