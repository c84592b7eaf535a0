// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderservice

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

const (
	servicePath = "/api/v1/namespaces/ns/services/op"
	slicePath   = "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices/op-zonelect"
	trust       = 10 * time.Second
	again       = 15 * time.Second
)

// world is an API server with a Service, in a bubble.
type world struct {
	*testing.T
	*apitest.Server

	wire http.Handler // between the keepers and the server; nil for nothing

	mu     sync.Mutex
	logged []string
}

func inABubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, Server: apitest.NewServer()}
		w.Put(servicePath, apitest.Object{"kind": "Service", "apiVersion": "v1",
			"metadata": apitest.Object{"name": "op", "namespace": "ns", "uid": "service-uid"},
			"spec":     apitest.Object{"ports": []any{apitest.Object{"name": "http", "port": 80, "targetPort": 8080}}}})
		test(w)
	})
}

// term is one that is renewed while it is.
type term struct{ renewed func() time.Time }

func (t term) TrustedFor() time.Duration { return time.Until(t.renewed().Add(trust)) }

// keep points the Service to a pod, until end is called.
func (w *world) keep(ip string, token uint64, renewed func() time.Time) (end func()) {
	w.Helper()
	var server http.Handler = w.Server
	if w.wire != nil {
		server = w.wire
	}
	k, err := New(Config{
		Core: apitest.Wire(w.T, server, corev1.SchemeGroupVersion), Discovery: apitest.Wire(w.T, server, discoveryv1.SchemeGroupVersion),
		Namespace: "ns", Service: "op", Endpoint: Endpoint{IP: ip, Pod: "pod-" + ip, Zone: "za", Node: "node"},
		Trust: trust, Again: again,
		Logger: funcr.New(func(_, line string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.logged = append(w.logged, line)
		}, funcr.Options{}),
	})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	var keeping sync.WaitGroup
	keeping.Go(func() { k.Keep(ctx, token, term{renewed}) })
	synctest.Wait()
	return func() {
		cancel()
		keeping.Wait()
	}
}

// stored returns the slice; nil if there is none.
func (w *world) stored() *discoveryv1.EndpointSlice {
	w.Helper()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	raw := w.Raw(slicePath)
	if raw == nil {
		return nil
	}
	var s discoveryv1.EndpointSlice
	if err := json.Unmarshal(raw, &s); err != nil {
		w.Fatal(err)
	}
	return &s
}

// pointsTo checks to which address the Service points; empty for none.
func (w *world) pointsTo(ip string) {
	w.Helper()
	var all []string
	if s := w.stored(); s != nil {
		for _, e := range s.Endpoints {
			all = append(all, e.Addresses...)
		}
	}
	if got := strings.Join(all, " and "); got != ip {
		w.Errorf("the Service points to %q, want %q", got, ip)
	}
}

func (w *world) saw(text string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.logged, func(line string) bool { return strings.Contains(line, text) }) {
		w.Errorf("the log does not say %q: %q", text, w.logged)
	}
}

func TestTheServicePointsToTheLeaderUntilItsTermEnds(t *testing.T) {
	inABubble(t, func(w *world) {
		end := w.keep("10.0.0.1", 7, time.Now)
		w.pointsTo("10.0.0.1")
		s := w.stored()
		if s.Labels[discoveryv1.LabelServiceName] != "op" || tokenOf(s) != 7 || s.AddressType != discoveryv1.AddressTypeIPv4 ||
			len(s.Ports) != 1 || *s.Ports[0].Name != "http" || *s.Ports[0].Port != 8080 ||
			s.OwnerReferences[0].UID != "service-uid" || *s.Endpoints[0].Zone != "za" || s.Endpoints[0].TargetRef.Name != "pod-10.0.0.1" {
			t.Errorf("%+v", s)
		}
		time.Sleep(10 * again)
		if now := w.stored(); now.ResourceVersion != s.ResourceVersion {
			t.Error("it was written again, and nothing had changed")
		}
		end()
		w.pointsTo("")
	})
}

func TestTheNextLeaderReplacesTheLastWhateverThatDoes(t *testing.T) {
	inABubble(t, func(w *world) {
		dead := w.keep("10.0.0.1", 7, func() time.Time { return time.Time{} })
		end := w.keep("10.0.0.2", 9, time.Now)
		w.pointsTo("10.0.0.2")
		version := w.stored().ResourceVersion
		time.Sleep(10 * again) // the former leader looks, too
		w.pointsTo("10.0.0.2")
		if now := w.stored().ResourceVersion; now != version {
			t.Errorf("the slice was replaced: version %s, then %s", version, now)
		}
		dead()
		w.pointsTo("10.0.0.2")
		end()
		w.pointsTo("")
	})
}

func TestALateWriteOfAFormerLeaderDoesNotLandOnItsSuccessors(t *testing.T) {
	inABubble(t, func(w *world) {
		former := w.keep("10.0.0.1", 7, time.Now)
		w.Mu.Lock()
		before := w.Raw(slicePath)
		w.Mu.Unlock()
		end := w.keep("10.0.0.2", 9, time.Now)
		defer end()
		defer former()
		client := apitest.Wire(w.T, w.Server, discoveryv1.SchemeGroupVersion)
		if err := client.Put().AbsPath(slicePath).Body(before).Do(w.Context()).Error(); err == nil {
			t.Error("it landed")
		}
		w.pointsTo("10.0.0.2")
	})
}

func TestWhatOthersChangeIsMended(t *testing.T) {
	for what, change := range map[string]func(w *world){
		"the slice is deleted": func(w *world) { w.Delete(slicePath) },
		"another address": func(w *world) {
			w.Change(slicePath, func(o apitest.Object) {
				o["endpoints"] = []any{apitest.Object{"addresses": []any{"10.9.9.9"}}}
			})
		},
		"no label": func(w *world) {
			w.Change(slicePath, func(o apitest.Object) { delete(o["metadata"].(apitest.Object), "labels") })
		},
		"no token": func(w *world) {
			w.Change(slicePath, func(o apitest.Object) { delete(o["metadata"].(apitest.Object), "annotations") })
		},
		"garbage":      tokenBecomes("garbage"),
		"a huge token": tokenBecomes("18446744073709551615"),
		"another port": func(w *world) {
			w.Change(servicePath, func(o apitest.Object) {
				o["spec"].(apitest.Object)["ports"].([]any)[0].(apitest.Object)["targetPort"] = 9090
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			inABubble(t, func(w *world) {
				end := w.keep("10.0.0.1", 7, time.Now)
				change(w)
				time.Sleep(3 * again)
				w.pointsTo("10.0.0.1")
				if s := w.stored(); s != nil && (tokenOf(s) != 7 || s.Labels[discoveryv1.LabelServiceName] != "op" || what == "another port" && *s.Ports[0].Port != 9090) {
					t.Errorf("%+v", s)
				}
				end()
				w.pointsTo("")
			})
		})
	}
}

func tokenBecomes(token string) func(*world) {
	return func(w *world) {
		w.Change(slicePath, func(o apitest.Object) {
			o["metadata"].(apitest.Object)["annotations"] = apitest.Object{record.AnnotationToken: token}
		})
	}
}

// TestALeaderThatIsNotRenewedReplacesNoLaterTerm, for it cannot tell a real one from garbage.
func TestALeaderThatIsNotRenewedReplacesNoLaterTerm(t *testing.T) {
	inABubble(t, func(w *world) {
		began := time.Now()
		end := w.keep("10.0.0.1", 7, func() time.Time { return began })
		tokenBecomes("9")(w)
		w.Change(slicePath, func(o apitest.Object) { o["endpoints"] = []any{apitest.Object{"addresses": []any{"10.0.0.2"}}} })
		time.Sleep(10 * again)
		w.pointsTo("10.0.0.2")
		w.saw(errLater.Error())
		end()
		w.pointsTo("10.0.0.2")
	})
}

func TestASliceOfAnotherAddressFamilyIsReplacedOnceSomebodyHasDeletedIt(t *testing.T) {
	inABubble(t, func(w *world) {
		w.keep("10.0.0.1", 7, time.Now)()
		end := w.keep("fd00::2", 9, time.Now)
		defer end()
		time.Sleep(again)
		w.pointsTo("")
		w.saw("delete the slice")
		w.Delete(slicePath)
		time.Sleep(2 * again)
		w.pointsTo("fd00::2")
		if s := w.stored(); s.AddressType != discoveryv1.AddressTypeIPv6 {
			t.Errorf("%+v", s)
		}
	})
}

func TestWhatIsWrongWithAServiceIsSaidAndMendedLater(t *testing.T) {
	spec := func(change func(spec apitest.Object)) func(apitest.Object) {
		return func(o apitest.Object) { change(o["spec"].(apitest.Object)) }
	}
	for want, change := range map[string]func(apitest.Object){
		"make another Service without one": spec(func(s apitest.Object) { s["selector"] = apitest.Object{"app": "op"} }),
		"use ClusterIP":                    spec(func(s apitest.Object) { s["type"] = "ExternalName" }),
		"write the number":                 spec(func(s apitest.Object) { s["ports"].([]any)[0].(apitest.Object)["targetPort"] = "http" }),
	} {
		inABubble(t, func(w *world) {
			w.Mu.Lock()
			good := maps.Clone(apitest.Clone(w.Objects[servicePath]))
			w.Mu.Unlock()
			w.Change(servicePath, change)
			end := w.keep("10.0.0.1", 7, time.Now)
			defer end()
			time.Sleep(3 * again)
			w.pointsTo("")
			w.saw(want)
			w.Change(servicePath, func(o apitest.Object) { o["spec"] = good["spec"] })
			time.Sleep(2 * again)
			w.pointsTo("10.0.0.1")
			w.saw("points to this process again")
		})
	}
}

func TestAMissingServiceOrPermissionIsSaid(t *testing.T) {
	inABubble(t, func(w *world) {
		w.Delete(servicePath)
		end := w.keep("10.0.0.1", 7, time.Now)
		defer end()
		time.Sleep(again)
		w.saw("the Service does not exist")
	})
	inABubble(t, func(w *world) {
		w.Before = func(verb, path string) (int, apitest.Object) {
			if path == slicePath {
				return apitest.Forbidden(verb, path)
			}
			return 0, nil
		}
		end := w.keep("10.0.0.1", 7, time.Now)
		defer end()
		time.Sleep(again)
		w.saw(`needs verb`)
	})
}

func TestAPodWithoutAnAddressIsRefused(t *testing.T) {
	for _, ip := range []string{"", "pod-1", "10.0.0.1:80"} {
		_, err := New(Config{Namespace: "ns", Service: "op", Endpoint: Endpoint{IP: ip}})
		if err == nil || !strings.Contains(err.Error(), "POD_IP") || errors.Is(err, locks.ErrConflict) {
			t.Errorf("%q: %v", ip, err)
		}
	}
}
