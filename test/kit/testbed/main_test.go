// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/zonelect/zonelect/test/kit/sharedport"
)

// roleVariable makes this test binary play a program that runs in a zone.
const roleVariable = "ZONELECT_TESTBED_ROLE"

// silence is how long a helper hears nothing before it says so.
const silence = time.Second

func TestMain(m *testing.M) {
	roles := map[string]func(args []string) error{
		"beat": playBeat, "serve": playServer, "dial": playDialler, "tell": playTeller,
	}
	if role, ok := roles[os.Getenv(roleVariable)]; ok {
		if err := role(os.Args[1:]); err != nil {
			fmt.Println("error:", err)
		}
		return
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// playBeat prints a line every 10 ms until SIGTERM, then says good-bye.
func playBeat([]string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			fmt.Println("bye")
			return nil
		case <-ticker.C:
			fmt.Println("beat", i)
		}
	}
}

// playServer (NAME, ADDRESS) greets each connection with its name and echoes
// each line. It prints what it receives.
func playServer(args []string) error {
	listener, err := sharedport.Listen(args[1])
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go serveOne(conn, args[0])
	}
}

// serveOne serves a connection until it breaks.
func serveOne(conn net.Conn, name string) {
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, name); err != nil {
		return
	}
	for in := bufio.NewScanner(conn); in.Scan(); {
		fmt.Println("heard", in.Text())
		if _, err := fmt.Fprintln(conn, in.Text()); err != nil {
			return
		}
	}
}

// playDialler (ADDRESS, COUNT) connects COUNT times and prints which server
// answered, or what went wrong.
func playDialler(args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for range count {
		fmt.Println(dialOnce(args[0]))
	}
	return nil
}

// dialOnce returns the greeting, or "silent", or the error.
func dialOnce(addr string) string {
	conn, err := net.DialTimeout("tcp", addr, silence)
	if err != nil {
		return outcome(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(silence))
	name, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return outcome(err)
	}
	return name[:len(name)-1]
}

// outcome names a failure: a timeout is silence.
func outcome(err error) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "silent"
	}
	return "broken: " + err.Error()
}

// playTeller (ADDRESS) keeps a connection, sends lines on it, and prints what it
// receives. It ends when the connection is broken.
func playTeller(args []string) error {
	conn, err := net.DialTimeout("tcp", args[0], silence)
	if err != nil {
		return err
	}
	go func() {
		for in := bufio.NewScanner(conn); in.Scan(); { // the first line is the greeting
			fmt.Println("heard", in.Text())
		}
	}()
	for ; err == nil; time.Sleep(10 * time.Millisecond) {
		_, err = fmt.Fprintln(conn, "ping")
	}
	return err
}
