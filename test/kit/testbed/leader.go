// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// EtcdLeader returns the zone whose etcd member leads the others. It waits for
// one: members elect another leader within seconds. A leading member that is
// cut off from the others counts only until they have elected another.
func (p *Parts) EtcdLeader(ctx context.Context) (string, error) {
	var leader string
	err := poll(ctx, "find etcd's leader", func(ctx context.Context) error {
		leader = p.etcdLeader(ctx)
		if leader == "" {
			return errors.New("no member says that it leads")
		}
		return nil
	})
	return leader, err
}

// etcdLeader asks all members at the same time, and believes the one that leads
// in the latest term.
func (p *Parts) etcdLeader(ctx context.Context) string {
	zones := p.config.Zones
	answers := make([]etcdStatus, len(zones))
	var all sync.WaitGroup
	for i, zone := range zones {
		all.Go(func() { answers[i] = p.etcdStatus(ctx, zone) })
	}
	all.Wait()
	leader, latest := "", uint64(0)
	for i, answer := range answers {
		if term, leads := answer.leads(); leads && term > latest {
			leader, latest = zones[i], term
		}
	}
	return leader
}

// etcdStatus is the part of etcd's answer that matters here; its numbers are
// strings.
type etcdStatus struct {
	Header struct {
		Member string `json:"member_id"`
	} `json:"header"`
	Leader string `json:"leader"`
	Term   string `json:"raftTerm"`
}

// leads reports whether the member leads, and in which term.
func (s etcdStatus) leads() (uint64, bool) {
	term, err := strconv.ParseUint(s.Term, 10, 64)
	return term, err == nil && s.Leader == s.Header.Member
}

// etcdStatus asks a member; a member that does not answer has no status.
func (p *Parts) etcdStatus(ctx context.Context, zone string) etcdStatus {
	var status etcdStatus
	if err := p.askEtcd(ctx, zone, "status", "{}", &status); err != nil {
		return etcdStatus{}
	}
	return status
}

// askEtcd makes a request of the maintenance API of a zone's member.
func (p *Parts) askEtcd(ctx context.Context, zone, method, body string, answer any) error {
	client := p.client()
	defer client.CloseIdleConnections()
	url := fmt.Sprintf("http://%s/v3/maintenance/%s", p.fabric.site(zone).etcd, method)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd of zone %s answers %s", zone, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
