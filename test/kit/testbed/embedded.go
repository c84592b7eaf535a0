// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/zonelect/zonelect/internal/apitest"
)

// Embedded returns an API server in memory, for those who have no etcd and no kube-apiserver. It
// speaks the API's wire format over TLS and HTTP/2. Each zone has a front end, a process with a watch
// cache of its own, which dies with the zone. The store that they share lives in the test process:
// it stands in for an etcd that always has a quorum. It knows neither rights, nor
// defaults, nor patches. So there are no nodes and no controllers.
func Embedded(ctx context.Context) (Programs, error) {
	path, err := BuildProgram(ctx, "./test/programs/front")
	return Programs{From: "embedded API server", apiserver: []string{path}}, err
}

// store serves an API server in memory to the front ends of the zones.
type store struct {
	servers []*http.Server
}

// commit is how long the store takes to write: about as long as an etcd with disks in three zones.
const commit = 5 * time.Millisecond

// socket is where a zone's front end reaches the store.
func (s *shared) socket(zone string) string { return filepath.Join(s.dir, zone, "store.sock") }

// newStore starts the store of an embedded API server.
func newStore(s *shared) (*store, error) {
	all := &store{}
	objects := apitest.NewServer()
	objects.Landing = func(*http.Request) bool { time.Sleep(commit); return true }
	for _, zone := range s.config.Zones {
		listener, err := net.Listen("unix", s.socket(zone))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start the store of the API: %w", err), all.close())
		}
		routes := http.NewServeMux()
		routes.Handle("/", inJSON(objects.NewFront()))
		routes.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
		server := &http.Server{Handler: routes} //nolint:gosec // its clients are the front ends
		all.servers = append(all.servers, server)
		s.background.Go(func() { _ = server.Serve(listener) }) // it ends with close
	}
	return all, nil
}

// inJSON turns what is written as protobuf, which typed clients of client-go prefer, into JSON.
func inJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") == runtime.ContentTypeProtobuf {
			body, err := io.ReadAll(r.Body)
			var o runtime.Object
			if err == nil {
				o, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
			}
			if err == nil {
				body, err = json.Marshal(o)
			}
			if err != nil {
				apitest.Reply(w, http.StatusBadRequest, apitest.Status(http.StatusBadRequest, "BadRequest", err.Error(), "", ""))
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}

// close ends all requests.
func (s *store) close() error {
	var err error
	for _, server := range s.servers {
		err = errors.Join(err, server.Close())
	}
	return err
}

// frontFlags are the flags of a zone's front end.
func (p *Parts) frontFlags(zone string) []string {
	return []string{
		"--listen=" + p.fabric.site(zone).apiserver,
		"--tls-cert-file=" + p.pki.cert,
		"--tls-private-key-file=" + p.pki.key,
		"--store=" + p.socket(zone),
	}
}
