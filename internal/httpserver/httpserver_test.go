// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zonelect/zonelect/internal/apitest"
)

// inABubble serves answers of 1 MiB, after a body if there is one.
func inABubble(t *testing.T, do func(t *testing.T, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := apitest.NewPipes()
		s := New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the client may be gone
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		}))
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = s.Serve(p) // it ends by Close
		}()
		defer func() { _ = s.Close(); <-over }() // a test that fails ends here, too
		do(t, func() net.Conn {
			c, err := p.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			return c
		})
	})
}

// ask sends a request and reads its answer.
func ask(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); resp.StatusCode != http.StatusOK || n != 1<<20 || err != nil {
		t.Fatalf("%s with %d bytes, %v", resp.Status, n, err)
	}
}

// lasts returns how long a connection stays open.
func lasts(c net.Conn) time.Duration {
	begun := time.Now()
	_, _ = io.Copy(io.Discard, c) // its end is what counts
	return time.Since(begun)
}

// TestAClientThatDoesNothingLosesItsConnection, whatever it has done before.
func TestAClientThatDoesNothingLosesItsConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		sends string
		most  time.Duration
	}{
		"it says nothing":            {"", askWithin},
		"it does not finish":         {"GET / HTTP/1.1\r\nHost: a\r\n", askWithin},
		"its body never comes":       {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", AnswerWithin},
		"it asks, and asks no more":  {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 90 * time.Second},
		"its headers are very large": {"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 4*mostHeaders), time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, dial func() net.Conn) {
				c := dial()
				go func() { _, _ = io.WriteString(c, tc.sends) }() // the server may have closed
				if took := lasts(c); took > tc.most {
					t.Errorf("its connection stays open for %v, want %v at most", took, tc.most)
				}
			})
		})
	}
}

// TestAClientThatReadsNothingLosesItsConnection: its answers would wait in memory.
func TestAClientThatReadsNothingLosesItsConnection(t *testing.T) {
	inABubble(t, func(t *testing.T, dial func() net.Conn) {
		c := dial()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_ = c.SetWriteDeadline(begun.Add(time.Hour)) // in case the server does not close
		for _, err := io.WriteString(c, "G"); err == nil; {
			_, err = io.WriteString(c, "G") // a pipe without a reader fails once the server has closed
		}
		if took := time.Since(begun); took > AnswerWithin {
			t.Errorf("its connection stays open for %v, want %v at most", took, AnswerWithin)
		}
	})
}

// TestSoManyConnectionsAreOpen, and those who ask are served beside those who only hold one.
func TestSoManyConnectionsAreOpen(t *testing.T) {
	inABubble(t, func(t *testing.T, dial func() net.Conn) {
		busy, ended := dial(), 0
		ends := make(chan struct{}, 1000)
		for range 4 * mostOpen {
			c := dial()
			go func() {
				_ = lasts(c)
				ends <- struct{}{}
			}()
			ask(t, busy)
		}
		synctest.Wait()
		for ; len(ends) > 0; <-ends {
			ended++
		}
		if want := 3*mostOpen + 1; ended != want { // one of those that are open is busy
			t.Errorf("%d connections have ended, want %d", ended, want)
		}
		ask(t, busy)
		ask(t, dial())
	})
}
