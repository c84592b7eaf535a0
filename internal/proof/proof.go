// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/zonelect/zonelect/internal/apierror"
	"github.com/zonelect/zonelect/internal/patience"
	"github.com/zonelect/zonelect/internal/rawapi"
	"github.com/zonelect/zonelect/locks"
)

// Config says which process wants proof, and about which candidates.
type Config struct {
	Lock string // namespace and name
	// Scope is empty, or says what else the process lock stands for than one lock's
	// election: processes of another scope know nothing of it, and prove nothing by it.
	Scope string
	// Namespace of the candidates' pods.
	Namespace string
	// PodName, PodUID and Container are where this process runs. Without the first two no
	// other candidate can prove that it is dead. An empty Container means the only one of the
	// pod.
	PodName, PodUID, Container string
	// WorkOutlivesProcess says that the end of this process proves nothing, because its work may go on.
	WorkOutlivesProcess bool
	// Pods is a client of the core group, v1.
	Pods rest.Interface
	// Patience is how long one request may take. Zero is 20 s.
	Patience time.Duration
	// Logger gets each missing permission once.
	Logger logr.Logger
}

// Witness proves that other processes are dead, and holds what others need to prove it of
// this process. Its methods are safe for concurrent use. Make one with [New].
type Witness struct {
	config Config
	writes chan struct{} // gets a signal when a record is about to be written
	first  bool          // this is the first process of a PID namespace
	mounts string        // of this process, as proc(5) lists them

	mu          sync.Mutex
	socket      string // which one the process lock is, once it is taken
	met         bool   // it was not free at some time: who had it lived beside this process
	containerID string
	told        map[string]bool
}

// firstMark ends the note of a process lock whose holder is the first process of a PID
// namespace. The name of its container follows.
const firstMark = "/first/"

// Delays between requests, and between tries to take a process lock.
const (
	retryFirst = time.Second
	retryMost  = 30 * time.Second
	retryFor   = 10 * time.Minute // for this process's container ID
	lockRetry  = 200 * time.Millisecond
)

// Why nothing can be proven of a holder at present.
var (
	errUnknown = errors.New("the holder has noted nothing that its death could be proven by")
	errLate    = errors.New("others would go first: they watch the holder's pod")
	errGone    = errors.New("the holder's pod is gone, which says nothing about its process")
)

// How a watch ends.
var (
	errReported = errors.New("the end is reported")
	errShort    = errors.New("the server ends each watch at once")
)

// unproven is the consequence of an unknown ID.
const unproven = "this container's ID is not known, so that nobody can prove its end while it leads: its lease must run out"

// New returns a Witness. It reads the mounts of this process, and does no other I/O.
func New(c Config) *Witness {
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // without it the configured container counts
	return newWitness(c, string(mounts))
}

func newWitness(c Config, mounts string) *Witness {
	c.Patience = cmp.Or(c.Patience, 20*time.Second)
	w := &Witness{
		config: c, writes: make(chan struct{}, 1), first: os.Getpid() == 1, mounts: mounts, told: map[string]bool{},
	}
	if in := Sandboxed(w.mounts); in != "" && !c.WorkOutlivesProcess {
		w.config.WorkOutlivesProcess = true // as far as anybody can prove
		w.tell("nobody can prove that this process has ended while it leads: its lease must run out", errors.New("it runs in "+in))
	}
	return w
}

// ProcessID is for election.Config. It takes the process lock, if it is free. It is empty if
// the end of this process proves nothing.
func (w *Witness) ProcessID() locks.ProcessID {
	if w.config.WorkOutlivesProcess {
		return locks.ProcessID{}
	}
	select {
	case w.writes <- struct{}{}:
	default:
	}
	noted, _ := w.tryLock()
	if noted != "" && w.first {
		noted += firstMark + w.config.Container
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return locks.ProcessID{ProcessLock: noted, ContainerID: w.containerID}
}

// tryLock takes the process lock, unless this Witness has it. It returns which socket that is,
// once taken, and which one this process would take.
func (w *Witness) tryLock() (taken, wanted string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.socket != "" || w.config.PodUID == "" {
		return w.socket, w.socket
	}
	wanted, ok := takeLock(w.config.PodUID + "\x00" + w.config.Lock + "\x00" + w.config.Scope)
	if ok {
		w.socket = wanted
	}
	w.met = w.met || !ok
	return w.socket, wanted
}

// mayFollow reports whether this process could get the process lock that a holder noted, and
// whether that would prove the holder's death and that of its children.
//
// The kernel closes the sockets of a PID namespace's first process before it kills the others
// there: these work on for a moment. They have all ended before the container's next instance
// begins. So nobody has proof who lived beside such a holder, or is in another container. A
// CONTAINER_NAME that is wrong for a process lets it follow only within that moment.
func (w *Witness) mayFollow(holder locks.Details) bool {
	socket, container, first := strings.Cut(holder.ProcessLock, firstMark)
	_, wanted := w.tryLock()
	if wanted == "" || socket != wanted || holder.Pod != (locks.Pod{Name: w.config.PodName, UID: w.config.PodUID}) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return !first || !w.met && container == w.config.Container
}

// Dead is for election.Config.
func (w *Witness) Dead(ctx context.Context, holder locks.Suspect) error {
	d := holder.Details
	switch {
	case w.mayFollow(d):
		return w.awaitLock(ctx, holder)
	case d.Pod.Name == "" || d.Pod.UID == "" || d.ContainerID == "":
		return errUnknown
	case !holder.Early:
		return errLate
	}
	return w.awaitReport(ctx, d.Pod.Name, holder, func(pod *corev1.Pod) bool {
		return string(pod.UID) == d.Pod.UID && Terminated(pod, d.ContainerID, holder.Acquired)
	})
}

// awaitLock waits until this process has the very process lock that the holder had.
func (w *Witness) awaitLock(ctx context.Context, holder locks.Suspect) error {
	again := time.NewTicker(lockRetry)
	defer again.Stop()
	socket, _, _ := strings.Cut(holder.Details.ProcessLock, firstMark)
	for {
		switch taken, _ := w.tryLock(); taken {
		case socket:
			w.proven(holder, "its process lock was free")
			return nil
		case "":
		default: // taken by a thread in another place
			return errUnknown
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitReport watches a pod until the report is there.
func (w *Witness) awaitReport(ctx context.Context, name string, holder locks.Suspect, there func(*corev1.Pod) bool) error {
	return w.retry(ctx, 0, "that another leader's container has ended cannot be seen here: its lease must run out", func() error {
		for {
			began := time.Now()
			err := w.pod(name).Watch(ctx, 0, func(_ context.Context, e rawapi.Event[*corev1.Pod]) error {
				switch {
				case e.Type == watch.Bookmark:
				case there(e.Object):
					return errReported
				case e.Type == watch.Deleted:
					return errGone
				}
				return nil
			})
			switch {
			case errors.Is(err, errReported):
				w.proven(holder, "the kubelet has reported the end of its container "+holder.Details.ContainerID)
				return nil
			case errors.Is(err, errGone):
				return backoff.Permanent(errGone)
			case err != nil:
				return err
			case time.Since(began) < retryMost:
				return errShort
			}
		}
	})
}

func (w *Witness) proven(holder locks.Suspect, how string) {
	w.config.Logger.Info("the leader is dead", "lock", w.config.Lock, "holder", holder.Details.Holder, "proof", how)
}

// FindContainer finds out the ID of this process's container, once a record that could carry
// it is written. It returns when that is settled, or ctx ends.
func (w *Witness) FindContainer(ctx context.Context) {
	if w.config.PodName == "" || w.config.PodUID == "" || w.config.WorkOutlivesProcess {
		return
	}
	select {
	case <-w.writes:
	case <-ctx.Done():
		return
	}
	start, err := processStart()
	if err != nil {
		w.tell(unproven, err)
		return
	}
	_ = w.retry(ctx, retryFor, unproven, func() error {
		pod, err := patience.Ask(ctx, w.config.Patience/10, w.config.Patience, w.pod(w.config.PodName).Get)
		if err != nil {
			return err
		}
		if string(pod.UID) != w.config.PodUID {
			return backoff.Permanent(fmt.Errorf("pod %s has UID %s, not this one's %s", pod.Name, pod.UID, w.config.PodUID))
		}
		name, err := w.container()
		if err != nil {
			return backoff.Permanent(err)
		}
		id, err := OwnContainer(pod, name, start)
		if err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.containerID = id
		return nil
	})
}

// container returns the name of this process's container, empty if it is not known.
func (w *Witness) container() (string, error) {
	seen := MountedContainer(w.mounts, w.config.PodUID)
	if w.config.Container != "" && seen != "" && w.config.Container != seen {
		return "", fmt.Errorf("this process runs in container %q, not in %q: CONTAINER_NAME is wrong", seen, w.config.Container)
	}
	return cmp.Or(w.config.Container, seen), nil
}

func (w *Witness) pod(name string) rawapi.Object[corev1.Pod, *corev1.Pod] {
	return rawapi.New[corev1.Pod](w.config.Pods, apierror.Object{Resource: apierror.Pods, Namespace: w.config.Namespace, Name: name})
}

// retry calls try until it succeeds, is forbidden or cannot succeed, ctx ends, or the limit,
// if there is one, is reached. It logs why it gave up, and on what.
func (w *Witness) retry(ctx context.Context, limit time.Duration, what string, try func() error) error {
	delays := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(retryFirst), backoff.WithMaxInterval(retryMost), backoff.WithMaxElapsedTime(limit))
	err := backoff.Retry(func() error {
		err := try()
		if errors.Is(err, locks.ErrForbidden) || errors.Is(err, locks.ErrNoAPI) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(delays, ctx))
	if err != nil && ctx.Err() == nil && !errors.Is(err, errGone) {
		w.tell(what, err)
	}
	return err
}

// tell logs each message once.
func (w *Witness) tell(what string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.told[what] {
		w.told[what] = true
		w.config.Logger.Info(what, "cause", err.Error())
	}
}
