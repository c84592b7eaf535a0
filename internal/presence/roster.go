// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package presence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	coordinationv1 "k8s.io/api/coordination/v1"
	kubewatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/internal/record"
	"github.com/zonelect/zonelect/locks"
)

// most is how many presences of others a [Roster] keeps: anybody who may create a Lease can
// invent one, and each costs memory and time.
const most = 300

// A roster that had to drop presences lists again once it has room: within a minute where
// that many candidates exist, and seldom where others come and go all the time.
const (
	firstRefill = time.Minute
	lastRefill  = 10 * time.Minute
)

// Roster follows the presences of a lock. It is for one goroutine. Make one
// with [NewRoster].
type Roster struct {
	client          rest.Interface
	namespace, lock string
	own             string // the name of this candidate's presence, which always has room; may be empty

	number  uint64 // the version up to which all is known; zero before that
	all     map[string]Object
	dropped bool      // there were more than it keeps
	listed  time.Time // when it was last filled
	refills *backoff.ExponentialBackOff
}

// NewRoster returns a roster that knows nobody yet. It keeps the presence of the name own, if
// there is one, however many others there are.
func NewRoster(client rest.Interface, namespace, lock, own string) *Roster {
	return &Roster{client: client, namespace: namespace, lock: lock, own: own, refills: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstRefill), backoff.WithMaxInterval(lastRefill), backoff.WithMaxElapsedTime(0))}
}

// Follow passes each the presences, by name, as they are and whenever they change, with the
// resourceVersion that this is true for, and blocks. It is one watch, which ends by itself
// after five to ten minutes: nil then. The next call continues where this one ended. Only
// three kinds of call begin with a list, which is not older than a resourceVersion: the
// first, one after a gap, and one that refills a roster that had dropped some.
func (r *Roster) Follow(ctx context.Context, notOlder uint64, each func(all []Object, asOf uint64)) error {
	if r.number == 0 {
		if err := r.list(ctx, notOlder); err != nil {
			return fmt.Errorf("presences at lock %s: %w", r.lock, err)
		}
		each(r.sorted(), r.number)
	}
	watching, end := context.WithCancel(ctx)
	defer end()
	refill := r.refill(end)
	err := rawapi.WatchAll(watching, r.client, r.query(), r.number,
		func(_ context.Context, e rawapi.Event[*coordinationv1.Lease]) error {
			if r.take(e) {
				each(r.sorted(), r.number)
			}
			if refill == nil {
				refill = r.refill(end)
			}
			return nil
		})
	if refill != nil {
		refill.Stop()
	}
	if watching.Err() != nil && ctx.Err() == nil {
		r.number = 0
		return nil
	}
	if errors.Is(err, locks.ErrVersionExpired) {
		r.number = 0
	}
	if err != nil {
		return fmt.Errorf("presences at lock %s: %w", r.lock, err)
	}
	return nil
}

// query is what it lists and watches. A long presence of another candidate is none.
func (r *Roster) query() rawapi.Query {
	return rawapi.Query{
		Resource: apierror.Leases, Namespace: r.namespace, Selector: selector(r.lock),
		Long: func(name string) bool { return name == r.own },
	}
}

func (r *Roster) list(ctx context.Context, notOlder uint64) error {
	q := r.query()
	q.Cached, q.NotOlder = true, notOlder
	var all first
	number, err := rawapi.ListEach(ctx, r.client, q, func() { all = first{own: r.own} }, func(e rawapi.Event[*coordinationv1.Lease]) {
		for _, o := range Among([]coordinationv1.Lease{*e.Object}, r.lock) {
			all.add(o)
		}
	})
	if err != nil {
		return err
	}
	if time.Since(r.listed) > lastRefill {
		r.refills.Reset()
	}
	r.number, r.all, r.dropped, r.listed = number, map[string]Object{}, all.cut(), time.Now()
	for _, o := range all.objects {
		r.all[o.Name] = o
	}
	return nil
}

// first collects the presences that were there first, at most as many as a roster keeps: whoever
// invents some comes after the candidates that were there.
type first struct {
	own     string // the name of the one that stays, however old it is
	objects []Object
	dropped bool
}

func (f *first) add(o Object) {
	if f.objects = append(f.objects, o); len(f.objects) > 3*most {
		f.cut()
	}
}

// cut drops those that are too many, and reports whether there ever were too many.
func (f *first) cut() bool {
	now := time.Now()
	slices.SortFunc(f.objects, func(a, b Object) int {
		if own := a.Name == f.own; own != (b.Name == f.own) {
			return map[bool]int{true: -1, false: 1}[own]
		}
		if old := a.isOld(now); old != b.isOld(now) {
			return map[bool]int{true: 1, false: -1}[old]
		}
		return a.compare(b)
	})
	room := most
	if len(f.objects) > 0 && f.objects[0].Name == f.own {
		room++
	}
	if len(f.objects) > room {
		f.objects, f.dropped = f.objects[:room], true
	}
	return f.dropped
}

// keep adds a presence that is not known, if there is room for it.
func (r *Roster) keep(o Object) bool {
	if o.Name != r.own && !r.hasRoom() {
		r.dropped = true
		if !r.makeRoom() {
			return false
		}
	}
	r.all[o.Name] = o
	return true
}

// makeRoom drops a presence that lapsed long ago, if there is one.
func (r *Roster) makeRoom() bool {
	now := time.Now()
	for name, o := range r.all {
		if name != r.own && o.isOld(now) {
			delete(r.all, name)
			return true
		}
	}
	return false
}

func (r *Roster) hasRoom() bool {
	others := len(r.all)
	if _, known := r.all[r.own]; known {
		others--
	}
	return others < most
}

// refill makes the roster fill up again after a while, by ending the watch, if it dropped
// some and has room now. Otherwise it returns nil.
func (r *Roster) refill(end func()) *time.Timer {
	if !r.dropped || !r.hasRoom() {
		return nil
	}
	return time.AfterFunc(r.refills.NextBackOff(), end)
}

// take applies an event, and reports whether it changed anything.
func (r *Roster) take(e rawapi.Event[*coordinationv1.Lease]) bool {
	r.number = max(r.number, record.Number(e.Object.ResourceVersion))
	if e.Type == kubewatch.Bookmark {
		return false
	}
	name := e.Object.Name
	before, known := r.all[name]
	now := Among([]coordinationv1.Lease{*e.Object}, r.lock)
	if e.Type == kubewatch.Deleted || len(now) == 0 {
		delete(r.all, name)
		return known
	}
	if !known {
		return r.keep(now[0])
	}
	r.all[name] = now[0]
	return now[0] != before
}

func (r *Roster) sorted() []Object {
	return slices.SortedFunc(maps.Values(r.all), func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
}

// compare orders presences by age, then by name.
func (o Object) compare(other Object) int {
	return cmp.Or(cmp.Compare(o.Created, other.Created), strings.Compare(o.Name, other.Name))
}

// speaksFor orders presences of one identity: that of the candidate comes first. Whoever copies
// an identity comes later than its owner, whose pod it names as a rule, and each pod has
// a presence of its own.
func (o Object) speaksFor(own string, other Object) int {
	rank := func(o Object) int {
		switch pod, is := strings.CutPrefix(o.Identity, o.Pod.Name); {
		case o.Name == own:
			return 0
		case o.Pod == (Pod{}): // its name is made of its identity, which proves nothing
			return 3
		case is && (pod == "" || pod[0] == '_'):
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(o), rank(other)), o.compare(other))
}

// Peers returns the candidates that presences announce: one for each identity, in the order of
// the presences' names. Anybody who may create a Lease can copy an identity. So an identity is
// unhealthy only if all its presences say so. For all else the one counts that most probably is
// the candidate's; own is the name of the reader's own one.
//
// listed is the number of presences at the lock, including those that no longer count. If it is as
// large as a Roster keeps, somebody may have made some up. Then those are doubtful
// that came after the reader: if it was there first, it waits for none that was made up later. If
// many came before it, they may be made up too, and all are doubtful, itself included: then it
// behaves as if it knew nobody, which is made for crowds.
func Peers(all []Object, own string, listed int) []locks.Peer {
	speaks, healthy := map[string]Object{}, map[string]bool{}
	var order []string
	for _, o := range all {
		if o.Identity == "" {
			continue
		}
		before, known := speaks[o.Identity]
		if !known {
			order = append(order, o.Identity)
		}
		if !known || o.speaksFor(own, before) < 0 {
			speaks[o.Identity] = o
		}
		healthy[o.Identity] = healthy[o.Identity] || o.Unhealthy == ""
	}
	var peers []locks.Peer
	doubtful := func(Object) bool { return false }
	if listed >= most {
		doubtful = crowd(all, own)
	}
	for _, identity := range order {
		o := speaks[identity]
		p := locks.Peer{
			Candidate: locks.Candidate{Identity: identity, Zone: o.Zone, Node: o.Node, Pod: locks.Pod{Name: o.Pod.Name, UID: string(o.Pod.UID)}},
			Unhealthy: o.Unhealthy,
			Doubtful:  doubtful(o),
		}
		if healthy[identity] && o.Name != own {
			p.Unhealthy = ""
		}
		peers = append(peers, p)
	}
	return peers
}

// fewOlder is how many presences of a crowd may be older than the reader's own one and count.
const fewOlder = 20

// crowd returns which presences of a crowd are doubtful.
func crowd(all []Object, own string) func(Object) bool {
	var mine Object
	if i := slices.IndexFunc(all, func(o Object) bool { return o.Name == own }); i >= 0 {
		mine = all[i]
	}
	doubtful := func(o Object) bool { return o.Name != own && o.Created > mine.Created }
	older := 0
	for _, o := range all {
		if !doubtful(o) {
			older++
		}
	}
	if mine.Name == "" || older > fewOlder+1 {
		return func(Object) bool { return true }
	}
	return doubtful
}
