// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// How long an answer may be. Package rawapi bounds each object of a list and each event of a
// watch where it reads it: their sum has no bound.
const (
	mostAnswer  = 16 << 20 // an object: normally it takes at most 1.5 MiB where it is stored
	mostRefusal = 64 << 10 // the explanation of a refusal
	mostHeaders = 1 << 20
	mostHost    = 253
)

// mostRetryAfter is how many seconds a refusal may have client-go wait before it sends a request
// again. An API server says 1.
const mostRetryAfter = 10

// Bounded returns rt with bounds on its answers: a longer one is an error, and a refusal is
// cut. It reads an answer before it returns it, but for a list and a watch, so that an answer that
// fails halfway, because the program ends perhaps, is an error of the request: client-go would log
// one of the body, whatever its reason. A server or a proxy on the way may send a request's credentials back with a refusal.
// Bounded removes them, because refusals are logged. A redirect is an error, because the next
// request would take the credentials along to wherever the server, or a proxy on the way, likes.
// Authentication belongs around it, where rest.Config.Wrap puts it.
func Bounded(rt http.RoundTripper) http.RoundTripper { return bounded{rt} }

type bounded struct{ next http.RoundTripper }

// RoundTrip sends one request, as http.RoundTripper says.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode >= http.StatusBadRequest:
		soon(resp.Header)
		return withoutSecrets(resp, req)
	case resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices:
		_ = resp.Body.Close() // nothing in it is needed
		return nil, elsewhere(resp)
	case inParts(req):
		return resp, nil
	}
	raw, err := read(resp.Body, mostAnswer+1)
	switch {
	case err != nil:
		return nil, err
	case len(raw) > mostAnswer:
		return nil, fmt.Errorf("the answer is longer than %d bytes: is this a Kubernetes API server?", mostAnswer)
	}
	return with(raw, resp), nil
}

// read reads a body, up to a bound, and closes it.
func read(body io.ReadCloser, most int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(body, most))
	_ = body.Close() // the rest of it is not needed
	return raw, err
}

// with replaces the body of an answer.
func with(raw []byte, resp *http.Response) *http.Response {
	resp.Body = io.NopCloser(bytes.NewReader(raw))
	return resp
}

// inParts reports whether a request asks for a list or a watch.
func inParts(req *http.Request) bool {
	q := req.URL.Query()
	return q.Get("watch") == "true" || q.Has("limit") || q.Has("resourceVersion")
}

// elsewhere says what was answered instead of an answer. Of the address in it, which may repeat
// credentials, only the host is told.
func elsewhere(resp *http.Response) error {
	to, err := resp.Location()
	if err != nil {
		return fmt.Errorf("the server answered %d, as no Kubernetes API server does: what answers at this address?", resp.StatusCode)
	}
	return fmt.Errorf("the server redirects to %.*q (%d), as no Kubernetes API server does, and is not followed, because the credentials would go there: is a proxy or a login page in front of it? Use the API server's own address", mostHost, to.Host, resp.StatusCode)
}

// soon bounds how long a refusal has client-go wait.
func soon(refusal http.Header) {
	if after, err := strconv.Atoi(refusal.Get("Retry-After")); err == nil && after > mostRetryAfter {
		refusal.Set("Retry-After", strconv.Itoa(mostRetryAfter))
	}
}

// withoutSecrets reads a refusal, up to its bound, and replaces it with what may be shown.
func withoutSecrets(resp *http.Response, req *http.Request) (*http.Response, error) {
	raw, err := read(resp.Body, mostRefusal)
	if err != nil {
		return nil, err
	}
	for _, secret := range secrets(req) {
		raw = bytes.ReplaceAll(raw, []byte(secret), []byte("(hidden)"))
	}
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	return with(raw, resp), nil
}

// leastSecret is how long a secret must be to be told from a word.
const leastSecret = 6

// secrets returns the parts of a request that nobody may read, also as JSON writes them.
func secrets(req *http.Request) []string {
	var all []string
	add := func(secret string) {
		if len(secret) < leastSecret {
			return
		}
		all = append(all, secret)
		if escaped, err := json.Marshal(secret); err == nil && len(escaped) > len(secret)+2 {
			all = append(all, string(escaped[1:len(escaped)-1]))
		}
	}
	if user, password, basic := req.BasicAuth(); basic && password != "" {
		add(password)
	} else {
		add(user) // some clients put a token there
	}
	for key, values := range req.Header {
		for _, value := range values {
			switch {
			case key == "Authorization":
				add(value[strings.IndexByte(value, ' ')+1:]) // without the scheme, if there is one
			case strings.HasPrefix(key, "Impersonate-Extra-"):
				add(value)
			}
		}
	}
	return all
}
