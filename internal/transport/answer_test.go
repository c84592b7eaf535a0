// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

// says is a server of one answer.
type says struct {
	code int
	body io.Reader
}

func (s says) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: s.code, Header: http.Header{}, Body: io.NopCloser(s.body), Request: req}, nil
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func answerOf(t *testing.T, s says, query string, header http.Header) io.Reader {
	t.Helper()
	req := (&http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "api", RawQuery: query}, Header: header}).WithContext(context.Background())
	resp, err := Bounded(s).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp.Body
}

func TestAnAnswerWithoutAnEndIsAnError(t *testing.T) {
	resp, err := Bounded(says{200, endless{}}).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://api/apis", nil))
	if err == nil {
		_ = resp.Body.Close()
		t.Error("it is an answer")
	} else if !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
	full := io.LimitReader(endless{}, mostAnswer)
	if n, err := io.Copy(io.Discard, answerOf(t, says{200, full}, "", nil)); n != mostAnswer || err != nil {
		t.Errorf("%d bytes were read of as many as may be, %v", n, err)
	}
}

// TestWhatIsReadInPartsMayBeLong: package rawapi bounds the parts.
func TestWhatIsReadInPartsMayBeLong(t *testing.T) {
	for _, query := range []string{"watch=true", "limit=2000", "resourceVersion=0&labelSelector=a"} {
		long := io.LimitReader(endless{}, mostAnswer+1)
		if n, err := io.Copy(io.Discard, answerOf(t, says{200, long}, query, nil)); n != mostAnswer+1 || err != nil {
			t.Errorf("%s: %d bytes were read, %v", query, n, err)
		}
	}
}

func TestARefusalIsCut(t *testing.T) {
	for _, query := range []string{"", "watch=true"} {
		if n, err := io.Copy(io.Discard, answerOf(t, says{500, endless{}}, query, nil)); n != mostRefusal || err != nil {
			t.Errorf("%d bytes were read, %v", n, err)
		}
	}
}

// TestAnAnswerThatFailsHalfwayIsAnErrorOfTheRequest: client-go logs an error of reading a body, even
// if the request ends because its program does.
func TestAnAnswerThatFailsHalfwayIsAnErrorOfTheRequest(t *testing.T) {
	for _, code := range []int{200, 503} {
		body := io.MultiReader(strings.NewReader(`{"kind":`), iotest.ErrReader(context.Canceled))
		resp, err := Bounded(says{code, body}).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://api/apis", nil))
		if err == nil {
			_ = resp.Body.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%d: %v", code, err)
		}
	}
}

// TestARefusalTellsNoCredentials of the request, whichever server returns them.
func TestARefusalTellsNoCredentials(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("jane:pass\"word<1>"))
	for name, tc := range map[string]struct{ header, value, echo, want string }{
		"a token":              {"Authorization", "Bearer s3cr3t.token", `{"message":"got Bearer s3cr3t.token"}`, `{"message":"got Bearer (hidden)"}`},
		"a bare one":           {"Authorization", "s3cr3t.token", `s3cr3t.token`, `(hidden)`},
		"name and password":    {"Authorization", "Basic " + basic, "Basic " + basic + ` pass"word<1>`, `Basic (hidden) (hidden)`},
		"a password as JSON":   {"Authorization", "Basic " + basic, `{"m":"pass\"word\u003c1\u003e"}`, `{"m":"(hidden)"}`},
		"an extra":             {"Impersonate-Extra-Ticket", "t1cket-1", `no t1cket-1`, `no (hidden)`},
		"a name is no secret":  {"Impersonate-User", "jane.doe", `User "jane.doe" cannot`, `User "jane.doe" cannot`},
		"a word is no secret":  {"Authorization", "Bearer lease", `no lease`, `no lease`},
		"an answer without it": {"Authorization", "Bearer s3cr3t.token", `{"code":403}`, `{"code":403}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := io.ReadAll(answerOf(t, says{403, strings.NewReader(tc.echo)}, "", http.Header{tc.header: {tc.value}}))
			if err != nil || string(got) != tc.want {
				t.Errorf("%q is told as %q, %v", tc.echo, got, err)
			}
		})
	}
}

func TestTheUserInAnAddressIsTakenOut(t *testing.T) {
	for address, want := range map[string][3]string{
		"https://jane:pa%40ss@api:6443/x": {"https://api:6443/x", "jane", "pa@ss"},
		"jane:pass@api":                   {"api", "jane", "pass"},
		"https://jane@api?q=a@b":          {"https://api?q=a@b", "jane", ""},
		"https://a b:%zz@api:bad":         {"https://api:bad", "a b:%zz", ""},
	} {
		bare, user := SplitUser(address)
		password, _ := user.Password()
		if bare != want[0] || user.Username() != want[1] || password != want[2] {
			t.Errorf("%q is %q, %q, %q", address, bare, user.Username(), password)
		}
	}
	for _, address := range []string{"", "api:6443", "https://api/a@b", "https://[::1]:6443#@"} {
		if bare, user := SplitUser(address); bare != address || user != nil {
			t.Errorf("%q is %q, %v", address, bare, user)
		}
	}
}
