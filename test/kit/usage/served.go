// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Served is what API servers were asked about Leases of any namespace.
type Served struct {
	Requests map[string]int // ended so far, by verb as the metrics have it: GET, LIST, PUT, POST, PATCH, WATCH
	Watches  int            // open now
}

// All is the number of requests of any verb.
func (s Served) All() (n int) {
	for _, count := range s.Requests {
		n += count
	}
	return n
}

// Since is what was asked after before was read; Watches is the difference.
func (s Served) Since(before Served) Served {
	more := Served{Requests: map[string]int{}, Watches: s.Watches - before.Watches}
	for verb, count := range s.Requests {
		if count > before.Requests[verb] {
			more.Requests[verb] = count - before.Requests[verb]
		}
	}
	return more
}

// ServedBy adds up the metrics of API servers.
func ServedBy(ctx context.Context, servers ...*rest.Config) (Served, error) {
	all := Served{Requests: map[string]int{}}
	for _, cfg := range servers {
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return all, fmt.Errorf("client for the metrics of %s: %w", cfg.Host, err)
		}
		text, err := client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			return all, fmt.Errorf("read the metrics of %s: %w", cfg.Host, err)
		}
		all.add(string(text))
	}
	return all, nil
}

// sample is a line of the metrics with labels.
var (
	sample = regexp.MustCompile(`^(\w+)\{(.*)\} (\S+)`)
	label  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// add adds the metrics of one server.
func (s *Served) add(text string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "apiserver_request_total{") && !strings.HasPrefix(line, "apiserver_longrunning_requests{") {
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		labels := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			labels[l[1]] = l[2]
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil || labels["resource"] != "leases" {
			continue
		}
		if m[1] == "apiserver_request_total" {
			s.Requests[labels["verb"]] += int(value)
		} else {
			s.Watches += int(value)
		}
	}
}
