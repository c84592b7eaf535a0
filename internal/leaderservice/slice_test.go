// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderservice

import (
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/internal/apitest"
)

func TestAServiceOfTheOtherAddressFamilyIsSaid(t *testing.T) {
	inABubble(t, func(w *world) {
		w.Change(servicePath, func(o apitest.Object) { o["spec"].(apitest.Object)["ipFamilies"] = []any{"IPv6"} })
		defer w.keep("10.0.0.1", 7, time.Now)()
		w.saw("ipFamilyPolicy")
		w.Change(servicePath, func(o apitest.Object) { o["spec"].(apitest.Object)["ipFamilies"] = []any{"IPv6", "IPv4"} })
		time.Sleep(again)
		w.pointsTo("10.0.0.1")
	})
}

func TestAHeadlessServiceWithoutPortsPointsToo(t *testing.T) {
	inABubble(t, func(w *world) {
		w.Change(servicePath, func(o apitest.Object) { o["spec"] = apitest.Object{"clusterIP": "None"} })
		defer w.keep("10.0.0.1", 7, time.Now)()
		w.pointsTo("10.0.0.1")
	})
}

func TestAServiceThatWasMadeAnewOwnsTheSlice(t *testing.T) {
	inABubble(t, func(w *world) {
		defer w.keep("10.0.0.1", 7, time.Now)()
		w.Change(servicePath, func(o apitest.Object) { o["metadata"].(apitest.Object)["uid"] = "another" })
		time.Sleep(again)
		if s := w.stored(); s.OwnerReferences[0].UID != "another" {
			t.Errorf("%+v", s.OwnerReferences)
		}
	})
}

func TestAnIPv4AddressInTheFormOfIPv6IsIPv4(t *testing.T) {
	e, err := Endpoint{IP: "::ffff:10.0.0.1"}.checked()
	if err != nil || e.IP != "10.0.0.1" || e.addressType != "IPv4" {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestAnAddressThatNobodyElseReachesIsRefused(t *testing.T) {
	for _, ip := range []string{"0.0.0.0", "::", "127.0.0.1", "::1", "169.254.1.1", "fe80::1", "fd00::1%eth0", "224.0.0.1"} {
		if _, err := (Endpoint{IP: ip}).checked(); err == nil || !strings.Contains(err.Error(), "POD_IP") {
			t.Errorf("%s: %v", ip, err)
		}
	}
}

func TestANameThatNoServiceCanHaveIsRefused(t *testing.T) {
	for _, name := range []string{"a.b", "Op", strings.Repeat("a", 64), ""} {
		_, err := New(Config{Namespace: "ns", Service: name, Endpoint: Endpoint{IP: "10.0.0.1"}})
		if err == nil || !strings.Contains(err.Error(), "name") || name != "" && !strings.Contains(err.Error(), "no Service can have") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
