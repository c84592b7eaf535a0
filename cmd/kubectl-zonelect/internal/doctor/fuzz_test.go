// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/zonelect/zonelect/internal/inspect"
)

// advice is what a hint may consist of. What a shell does not take for a letter is in what this package
// writes, and in no command.
var advice, copied = regexp.MustCompile(`^[A-Za-z0-9 .,:;/#=()'?_-]*$`), regexp.MustCompile(`'(kubectl [^']*)'`)

// whole says what is wrong with findings: each has a result, a text and a check, and a hint in which
// nothing is more than a word to a shell.
func whole(t *testing.T, all []Finding) {
	t.Helper()
	for _, f := range all {
		f.Hint = strings.ReplaceAll(f.Hint, " | kubectl apply -f -'", "'") // the one pipe that this package writes
		if !slices.Contains([]Result{OK, Note, Warning, Problem}, f.Result) || f.Text == "" || f.Check == "" || !advice.MatchString(f.Hint) {
			t.Errorf("%+v", f)
		}
		for _, command := range copied.FindAllString(f.Hint, -1) {
			if strings.ContainsAny(command[1:len(command)-1], ";()?'#") {
				t.Errorf("%q is a command to copy", command)
			}
		}
	}
}

// FuzzCheck examines a lock of which anybody wrote anything. Each finding is whole, the same facts give
// the same findings in whatever order candidates were read, and a lock that is renewed is never said
// to be without a leader.
func FuzzCheck(f *testing.F) {
	seed, _ := json.Marshal(lockOf(func(*coordinationv1.Lease) {}).Lease) // it has a JSON form
	f.Add(seed, "pod/old", int64(0))
	f.Add([]byte(`{"metadata":{"annotations":{"zonelect.dev/phase":"dual","zonelect.dev/legacy-lock":"annotation/endpoints/"}},"spec":{"holderIdentity":"a","leaseDurationSeconds":-1}}`), "", int64(-1))
	f.Add([]byte(`{"spec":{"leaseDurationSeconds":2147483647,"holderIdentity":"a"}}`), "x", int64(1)<<62)
	f.Add([]byte(`{"metadata":{"name":"$(touch x)","namespace":"$(touch y)"},"spec":{"holderIdentity":"a; b","leaseDurationSeconds":15}}`), "pod/a'; b `c` | d & e", int64(time.Second))
	f.Fuzz(func(t *testing.T, one []byte, text string, n int64) {
		var lease coordinationv1.Lease
		if json.Unmarshal(one, &lease) != nil {
			t.Skip("no Lease")
		}
		l := Lock{Now: midnight, Account: text, LegacyPod: Fact[string]{Value: text}}
		l.Election = inspect.Election{NamespacedName: inspect.KeyOf(&lease), Lease: &lease, Watched: inspect.Watched{For: time.Duration(n)}}
		l.Candidates = []inspect.Candidate{{Identity: text, Zone: text}, {Identity: "b", Pod: text, PodState: text, Node: text, NodeState: text, ServiceAccount: text}}
		l.Legacy = &inspect.Legacy{Object: "configmap/old", Kind: "legacy", Holder: text}
		l.Rights.Value = l.Needs()
		said := l.Check()
		whole(t, said)
		slices.Reverse(l.Candidates)
		if again := l.Check(); !reflect.DeepEqual(again, said) {
			t.Errorf("then %+v\nbefore %+v", again, said)
		}
		l.Watched.Renewed = true
		for _, found := range l.Check() {
			if s := l.Status(midnight).State; found.Check == "lock" && found.Result == Problem && s == inspect.Held {
				t.Errorf("it is renewed, and %+v", found)
			}
		}
	})
}
