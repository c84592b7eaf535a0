// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/zonelect/zonelect/internal/sleep"
	"github.com/zonelect/zonelect/test/kit/history"
)

// etcd reads a member's own history, through its JSON gateway: every revision,
// also where an apiserver's watch may have been away.
type etcd struct{ url string }

// forgetful keeps no connections: the far end may be dead by the next request. It notices within
// seconds that the far end of a watch has lost its power.
var forgetful = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{
	Timeout: time.Second, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3},
}).DialContext}}

// key is the key of a ConfigMap in Kubernetes' storage.
func key(namespace, name string) []byte {
	return []byte("/registry/configmaps/" + namespace + "/" + name)
}

// now returns etcd's current revision. It needs a quorum.
func (e etcd) now(ctx context.Context) (int64, error) {
	body, err := e.post(ctx, "/v3/kv/range", map[string]any{"key": []byte("/registry"), "limit": 1, "keys_only": true})
	if err != nil {
		return 0, err
	}
	defer body.Close()
	var answer struct{ Header struct{ Revision string } }
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("ask etcd for its revision: %w", err)
	}
	return strconv.ParseInt(answer.Header.Revision, 10, 64)
}

// soon is now, retried for a few seconds in case etcd has no leader for a
// moment.
func (e etcd) soon(ctx context.Context) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		if revision, err = e.now(ctx); err == nil {
			return revision, nil
		}
		if sleep.For(ctx, 100*time.Millisecond) != nil {
			return 0, err
		}
	}
}

// leads returns the term in which the member leads; zero if it does not.
func (e etcd) leads(ctx context.Context) uint64 {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	body, err := e.post(ctx, "/v3/maintenance/status", struct{}{})
	if err != nil {
		return 0
	}
	defer body.Close()
	var status struct { // its numbers are strings
		Header struct {
			Member string `json:"member_id"`
		}
		Leader string
		Term   string `json:"raftTerm"`
	}
	if json.NewDecoder(body).Decode(&status) != nil || status.Leader != status.Header.Member {
		return 0
	}
	term, _ := strconv.ParseUint(status.Term, 10, 64)
	return term
}

// history returns all revisions of a ConfigMap from one revision to another,
// which must not be newer than etcd's.
func (e etcd) history(ctx context.Context, namespace, name string, from, to int64) (all history.Register, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	body, err := e.post(ctx, "/v3/watch", map[string]any{"create_request": map[string]any{
		"key": key(namespace, name), "start_revision": from, "progress_notify": true,
	}})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	for decoder := json.NewDecoder(body); ; {
		var answer watched
		if err := decoder.Decode(&answer); err != nil {
			return nil, fmt.Errorf("read the history of %s from etcd: %w", name, err)
		}
		r := answer.Result
		if r.Canceled {
			return nil, fmt.Errorf("read the history of %s from etcd: %s (compacted at %s)", name, r.CancelReason, r.CompactRevision)
		}
		for _, event := range r.Events {
			one, err := event.revision()
			if err != nil {
				return nil, err
			}
			if one.Version >= uint64(to) {
				return all, nil
			}
			if event.Type != "DELETE" {
				all = append(all, one)
			}
		}
	}
}

// watched is one message of etcd's watch.
type watched struct {
	Result struct {
		Canceled        bool
		CancelReason    string `json:"cancel_reason"`
		CompactRevision string `json:"compact_revision"`
		Events          []change
	}
}

// change is one event of etcd's watch.
type change struct {
	Type string
	KV   struct {
		Key         []byte
		ModRevision string `json:"mod_revision"`
		Value       []byte
	}
}

// revision is a change of a register.
func (c change) revision() (r history.Revision, err error) {
	if r.Version, err = strconv.ParseUint(c.KV.ModRevision, 10, 64); err != nil {
		return r, fmt.Errorf("read a revision of etcd's: %w", err)
	}
	if c.Type == "DELETE" {
		return r, nil
	}
	stored, _, err := scheme.Codecs.UniversalDeserializer().Decode(c.KV.Value, nil, nil)
	if err != nil {
		return r, fmt.Errorf("read revision %d of %s: %w", r.Version, c.KV.Key, err)
	}
	register, ok := stored.(*corev1.ConfigMap)
	if !ok {
		return r, fmt.Errorf("read revision %d of %s: it is a %T", r.Version, c.KV.Key, stored)
	}
	r.Identity = register.Data["identity"]
	// What is not a number is not a write of a candidate, and is found out as
	// such.
	r.Token, _ = strconv.ParseUint(register.Data["token"], 10, 64)
	r.Sequence, _ = strconv.Atoi(register.Data["sequence"])
	return r, nil
}

func (e etcd) post(ctx context.Context, path string, request any) (io.ReadCloser, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("ask etcd: %w", err)
	}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+path, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("ask etcd: %w", err)
	}
	answer, err := forgetful.Do(asked)
	if err != nil {
		return nil, fmt.Errorf("ask etcd: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return nil, fmt.Errorf("ask etcd: %s: %s", answer.Status, text)
	}
	return answer.Body, nil
}
