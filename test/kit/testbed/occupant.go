// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// occupant is the user whose requests fill the priority level without seats, so
// that it admits no others.
const occupant = "zonelect-testbed-occupant"

// occupantPath accepts an object, and anyone may post to it.
const occupantPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// occupy notes that a user is to be rejected. With the first such user the
// occupant begins: on each apiserver it keeps a request open whose body never
// ends, so that another request is always executing.
func (c *Cluster) occupy(user, level string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.New("the testbed is closed")
	}
	c.rejected[user] = true
	if c.vacateAll != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(c.ctx)
	for _, zone := range c.config.Zones {
		c.background.Go(func() {
			for ctx.Err() == nil {
				// It ends whenever the apiserver ends it or cannot be reached.
				_ = c.sit(ctx, zone, level)
			}
		})
	}
	c.vacateAll = cancel
	return nil
}

// vacate notes that a user is no longer rejected.
func (c *Cluster) vacate(user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.rejected, user)
	if len(c.rejected) == 0 && c.vacateAll != nil {
		c.vacateAll()
		c.vacateAll = nil
	}
}

// sitPause is the time between attempts to take a seat.
const sitPause = 5 * time.Millisecond

// sitLimit bounds each attempt, so that one that keeps nobody else out ends before
// a test gives up.
const sitLimit = 20 * time.Second

// sit makes a request of this priority level to a zone's apiserver that stays
// open as long as the apiserver lets it, but no longer than sitLimit. It notices
// soon when the request is gone.
func (c *Cluster) sit(ctx context.Context, zone, level string) error {
	time.Sleep(sitPause)
	ctx, cancel := context.WithTimeout(ctx, sitLimit)
	defer cancel()
	place, err := url.Parse(c.fabric.observe(zone))
	if err != nil {
		return fmt.Errorf("find the apiserver of zone %s: %w", zone, err)
	}
	alive := net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Second, KeepAliveConfig: alive}, Config: c.tlsConfig()}
	conn, err := dialer.DialContext(ctx, "tcp", place.Host)
	if err != nil {
		return fmt.Errorf("reach the apiserver of zone %s: %w", zone, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	answers := bufio.NewReader(conn)
	// Before the apiserver knows of the level, the request would wait on
	// another one.
	answer, err := ask(conn, answers, "GET "+rejectedPath, 0)
	if err != nil || answer.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) != level {
		return err
	}
	_, err = ask(conn, answers, "POST "+occupantPath, 1)
	return err
}

// ask sends the header of an occupant's request that announces a body of length
// bytes, sends no body, and returns the header of the answer.
func ask(conn net.Conn, answers *bufio.Reader, what string, length int) (http.Header, error) {
	_, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nImpersonate-User: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		what, conn.RemoteAddr(), adminToken, occupant, length)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return response.Header, discard(response)
}
