// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zonelect/zonelect/cmd/kubectl-zonelect/internal/demo"
)

// cast is the candidates of a demonstration, and what they have told. Its methods are safe for
// concurrent use.
type cast struct {
	env  *environment
	args []string // of each candidate

	mu      sync.Mutex
	events  []demo.Event
	news    chan struct{} // closed and replaced at each event
	running map[string]*member
	starts  map[string]int // by candidate
	failed  error          // a candidate ended that nobody told to
}

// member is one process of a candidate.
type member struct {
	process
	identity string
	errors   *lastLines
	told     bool          // to end
	ended    chan struct{} // closed when the process has ended
}

func newCast(env *environment, args []string) *cast {
	return &cast{env: env, args: args, news: make(chan struct{}), running: map[string]*member{}, starts: map[string]int{}}
}

// start starts a candidate. Each of its processes has an identity of its own.
func (c *cast) start(name string) (identity string, err error) {
	c.mu.Lock()
	c.starts[name]++
	identity = fmt.Sprintf("%s_%d", name, c.starts[name])
	c.mu.Unlock()
	m := &member{identity: identity, errors: &lastLines{}, ended: make(chan struct{})}
	told, out := io.Pipe()
	var reading sync.WaitGroup
	reading.Go(func() { c.hear(told) })
	if m.process, err = c.env.launch(append(slices.Clone(c.args), "--identity="+identity), out, m.errors); err != nil {
		_ = out.Close() // a pipe's never fails
		return "", err
	}
	c.mu.Lock()
	c.running[identity] = m
	c.mu.Unlock()
	go func() { // it ends with the process, which end waits for
		err := m.Wait()
		_ = out.Close()
		reading.Wait()
		c.mu.Lock()
		delete(c.running, identity)
		if !m.told && c.failed == nil {
			c.failed = fmt.Errorf("candidate %s ended by itself: %w: %s", identity, cmp.Or(err, errNoFault), strings.Join(m.errors.lines(), "; "))
		}
		c.mu.Unlock()
		close(m.ended)
		c.note()
	}()
	return identity, nil
}

// hear notes what a candidate tells. What is not an event, such as a warning of a library, is passed over.
func (c *cast) hear(from io.Reader) {
	defer func() { _, _ = io.Copy(io.Discard, from) }() // nothing holds up a candidate
	for lines := json.NewDecoder(from); ; {
		var e demo.Event
		if err := lines.Decode(&e); err != nil {
			return
		}
		c.note(e)
	}
}

// note adds events, and wakes those who await one.
func (c *cast) note(events ...demo.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, events...)
	close(c.news)
	c.news = make(chan struct{})
}

// told returns what has been told so far.
func (c *cast) told() []demo.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

// errNoFault is the result of a process that says nothing is wrong.
var errNoFault = errors.New("exit status 0")

// errLate says that something did not happen in time. What that means, the judge says.
var errLate = errors.New("it did not happen in time")

// await waits for an event. It fails with errLate after a while, or if a candidate has ended that
// nobody told to.
func (c *cast) await(ctx context.Context, most time.Duration, is func(demo.Event) bool) (demo.Event, error) {
	late := time.NewTimer(most)
	defer late.Stop()
	for {
		c.mu.Lock()
		i, news, failed := slices.IndexFunc(c.events, is), c.news, c.failed
		var found demo.Event
		if i >= 0 {
			found = c.events[i]
		}
		c.mu.Unlock()
		switch {
		case i >= 0:
			return found, nil
		case failed != nil:
			return found, failed
		}
		select {
		case <-news:
		case <-late.C:
			return demo.Event{}, errLate
		case <-ctx.Done():
			return demo.Event{}, context.Cause(ctx)
		}
	}
}

// member returns a process that runs, nil if it has ended.
func (c *cast) member(identity string) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[identity]
}

// tell tells a candidate a word.
func (c *cast) tell(identity, word string) error {
	m := c.member(identity)
	if m == nil {
		return fmt.Errorf("candidate %s has ended", identity)
	}
	_, err := io.WriteString(m, word+"\n")
	return err
}

// terminate asks a candidate to stop, and waits until it has ended.
func (c *cast) terminate(ctx context.Context, identity string) error {
	return c.finish(ctx, identity, (*member).Terminate)
}

// kill kills a candidate, and notes when it was dead.
func (c *cast) kill(ctx context.Context, identity string) error {
	if err := c.finish(ctx, identity, (*member).Kill); err != nil {
		return err
	}
	c.note(demo.Event{Time: c.env.now(), Candidate: identity, Kind: demo.Killed})
	return nil
}

func (c *cast) finish(ctx context.Context, identity string, how func(*member) error) error {
	m := c.member(identity)
	if m == nil {
		return fmt.Errorf("candidate %s has ended", identity)
	}
	c.mu.Lock()
	m.told = true
	c.mu.Unlock()
	if err := how(m); err != nil {
		return err
	}
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end has all candidates end, and waits for them. Those that take longer are killed. It returns their
// identities.
func (c *cast) end(most time.Duration) (killed []string) {
	c.mu.Lock()
	var all []*member
	for _, m := range c.running {
		m.told = true
		all = append(all, m)
	}
	c.mu.Unlock()
	for _, m := range all {
		_ = m.Close() // it may have ended
	}
	late := time.NewTimer(most)
	defer late.Stop()
	for _, m := range all {
		select {
		case <-m.ended:
			continue
		case <-late.C:
			late.Reset(0) // for the others
		}
		killed = append(killed, m.identity)
		_ = m.Kill() // it may have ended
		<-m.ended
	}
	return killed
}

// lastLines keeps the last lines that are written to it.
type lastLines struct {
	mu   sync.Mutex
	text []byte
}

const mostErrors = 4096

func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-mostErrors):]
	return len(p), nil
}

func (l *lastLines) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(strings.TrimSpace(string(bytes.ToValidUTF8(l.text, nil))), "\n")
	return all[max(0, len(all)-3):]
}
