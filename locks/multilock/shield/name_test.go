// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package shield_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"

	"github.com/zonelect/zonelect/internal/apitest"
	"github.com/zonelect/zonelect/locks/multilock/internal/multilocktest"
	"github.com/zonelect/zonelect/locks/multilock/shield"
)

// TestANameByWhichNoLegacyPodLeadsIsSaidOnceToBePerhapsWrong, before the work begins: after a
// rollback two would lead.
func TestANameByWhichNoLegacyPodLeadsIsSaidOnceToBePerhapsWrong(t *testing.T) {
	const wrong = "may be wrong"
	old := multilocktest.PodsPath + "old"
	for name, tc := range map[string]struct {
		before, after func(*multilocktest.Stage) // the candidate starts, and 15 s later
		waiting       bool                       // the candidate says so while it waits
		want          int
	}{
		"legacy pods run":           {func(s *multilocktest.Stage) { s.Runs("old") }, nil, true, 1},
		"they end soon":             {func(s *multilocktest.Stage) { s.Runs("old") }, func(s *multilocktest.Stage) { s.Server.Delete(old) }, false, 1},
		"one leads":                 {func(s *multilocktest.Stage) { s.Runs("old"); s.Holds("old") }, nil, false, 0},
		"one leads, and both end":   {func(s *multilocktest.Stage) { s.Runs("old"); s.Holds("old") }, func(s *multilocktest.Stage) { s.Server.Delete(old); s.Server.Delete(multilocktest.MapPath) }, false, 0},
		"the next one leads soon":   {func(s *multilocktest.Stage) { s.Runs("old") }, func(s *multilocktest.Stage) { s.Holds("old") }, false, 0},
		"one has yet to start":      {pending, nil, false, 0},
		"no legacy pod was there":   {func(*multilocktest.Stage) {}, nil, false, 0},
		"one comes once it is over": {func(*multilocktest.Stage) {}, func(s *multilocktest.Stage) { s.Runs("old") }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			multilocktest.Scenario(t, func(s *multilocktest.Stage) {
				var said []string
				s.Server.Put("/api/v1/nodes/node", &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
				tc.before(s)
				a := s.Start("a", func(c *shield.Config) {
					c.Lease.Logger = funcr.New(func(_, line string) { said = append(said, line) }, funcr.Options{})
				})
				time.Sleep(15 * time.Second)
				if tc.after != nil {
					tc.after(s)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := strings.Contains(a.Status().Waiting, wrong); got != tc.waiting {
					t.Errorf("it waits for %q", a.Status().Waiting)
				}
				if log := strings.Join(said, "\n"); strings.Count(log, "the name of the legacy lock "+wrong) != tc.want {
					t.Errorf("it says\n%s", log)
				}
			})
		})
	}
}

// pending adds a legacy pod that does not run yet.
func pending(s *multilocktest.Stage) {
	s.Runs("old")
	s.Server.Change(multilocktest.PodsPath+"old", func(o apitest.Object) { o["status"].(apitest.Object)["phase"] = "Pending" })
}
