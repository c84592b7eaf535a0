// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"io"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/zonelect/zonelect/internal/plain"
)

// environment is what the commands share. Tests replace its parts.
type environment struct {
	streams genericiooptions.IOStreams
	config  *genericclioptions.ConfigFlags
	now     func() time.Time
	// connect makes the clients; it is called once the flags are read.
	connect func() (clients, error)
	begun   bool // the command line made sense
	role    role // of the command
	// restConfig says how demo's candidates reach the cluster.
	restConfig func() (*rest.Config, error)
}

// clients are clients of the API groups that the commands need, v1 each.
type clients struct {
	core, apps, coordination, authorization rest.Interface
}

func newEnvironment(streams genericiooptions.IOStreams) *environment {
	streams.Out, streams.ErrOut = plain.Writer{Writer: streams.Out}, plain.Writer{Writer: streams.ErrOut}
	env := &environment{
		streams: streams,
		config:  genericclioptions.NewConfigFlags(true),
		now:     time.Now,
	}
	env.connect = env.dial
	env.restConfig = env.config.ToRESTConfig
	return env
}

// say prints. Anybody may have written the arguments: none of them is more than a part of its line. Other control
// characters stop at the streams, which are plain.Writers.
func say(w io.Writer, format string, args ...any) error {
	for i, arg := range args {
		args[i] = plain.Text(fmt.Sprint(arg))
	}
	_, err := fmt.Fprintf(w, format, args...)
	return err
}

// tell prints something beside the result. An error has no place to be reported.
func tell(w io.Writer, format string, args ...any) { _ = say(w, format, args...) }

// tell prints something to standard error.
func (e *environment) tell(format string, args ...any) { tell(e.streams.ErrOut, format, args...) }

// waitNote is after how long people are told what a command waits for.
const waitNote = 1200 * time.Millisecond

// waiting says what a command waits for, if that takes long. Call done when it is over.
func (e *environment) waiting(format string, args ...any) (done func() bool) {
	return time.AfterFunc(waitNote, func() { e.tell(format, args...) }).Stop
}

// Requests come in bursts: one for each lock.
const queriesPerSecond, queriesAtOnce = 50, 300

func (e *environment) dial() (clients, error) {
	config, err := e.restConfig()
	if err != nil {
		return clients{}, fmt.Errorf("find the cluster: %w", err)
	}
	config.QPS, config.Burst = queriesPerSecond, queriesAtOnce
	klog.LogToStderr(false)
	klog.SetOutput(e.streams.ErrOut) // what -v shows may have texts of others, too
	// client-go would log them as they are, past the streams.
	config.WarningHandler = rest.NewWarningWriter(e.streams.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return clients{}, fmt.Errorf("connect to the cluster: %w", err)
	}
	return clients{
		core: set.CoreV1().RESTClient(), apps: set.AppsV1().RESTClient(),
		coordination: set.CoordinationV1().RESTClient(), authorization: set.AuthorizationV1().RESTClient(),
	}, nil
}
