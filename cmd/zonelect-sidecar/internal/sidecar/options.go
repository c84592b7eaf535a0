// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sidecar

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/operator"
)

// defaultAddress is where /leader is served if there is no command.
const defaultAddress = "127.0.0.1:4040"

// leastGrace is the shortest StopGrace in which a command can be killed for sure.
const leastGrace = 250 * time.Millisecond

// options are what the flags and the environment say.
type options struct {
	operator.Options
	address string   // empty means that nothing is served
	metrics string   // where metrics and health are served; empty means nowhere
	command []string // empty means that a program polls
	out     *os.File // of the command
}

const usage = `Elects one leader among the replicas of a program.

  zonelect-sidecar [flags] -- command args...   runs the command while this replica leads
  zonelect-sidecar [flags]                      answers GET /leader for a program that polls

The command gets ZONELECT_TOKEN, the fencing token of the term, ZONELECT_LOCK and
ZONELECT_IDENTITY. Each --leader-elect flag can be a variable instead, such as
LEADER_ELECT_RESOURCE_NAME. In a pod, the service account's token says where this process
runs. Outside a cluster KUBECONFIG says where the API server is.

Flags:
`

// parse reads the environment and the arguments, and returns what is wrong with them. Help goes to help.
func parse(args []string, help io.Writer) (options, error) {
	o := options{Options: operator.Options{ExitOnOverrun: true}, out: os.Stdout}
	if err := o.FromEnvironment(); err != nil {
		return o, err
	}
	fs := pflag.NewFlagSet("zonelect-sidecar", pflag.ContinueOnError)
	fs.SetInterspersed(false) // the command's flags are its own
	fs.SortFlags = false
	fs.Usage = func() { _, _ = fmt.Fprint(help, usage, fs.FlagUsages()) }
	fs.StringVar(&o.address, "address", "", "Loopback address to serve /leader on. Default: "+defaultAddress+
		", or nowhere if there is a command.")
	fs.StringVar(&o.metrics, "metrics-bind-address", "", "Address to serve /metrics and /healthz on, such as :8080. Empty: nowhere.")
	fs.DurationVar(&o.Timing.StopGrace, "stop-grace", 0, "How long the work may take to stop once leadership is lost. "+
		"The command is killed after four fifths of it. 0: as long as the lease allows.")
	fs.DurationVar(&o.Timing.StopTimeout, "stop-timeout", timing.DefaultStopTimeout, "How long the work may take to stop in good order. "+
		"The command is killed after four fifths of it.")
	o.AddFlags(fs)
	fs.Lookup("leader-elect-resource-name").Usage = "Name of the Lease, the same for all replicas. Required."
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.command = fs.Args(); len(o.command) == 0 && fs.ArgsLenAtDash() == 0 {
		return o, errors.New("there is no command after --: name one, or leave -- out")
	}
	if o.address == "" && len(o.command) == 0 {
		o.address = defaultAddress
	}
	o.WorkOutlivesProcess = o.outlives(os.Getpid())
	return o, o.check()
}

// outlives reports whether work may go on when this process has ended: that of a program that
// polls, and what a command has started. Only the first process of a container takes all that
// with it.
func (o options) outlives(pid int) bool {
	return len(o.command) == 0 || o.address != "" || pid != 1
}

// check returns what is wrong with the sidecar's own options. Package operator checks the others.
func (o options) check() error {
	var errs []error
	if t := o.Timing.WithDefaults(); t.Validate() == nil && t.StopGrace < leastGrace {
		errs = append(errs, fmt.Errorf("the StopGrace is %v, and a command cannot be ended for certain in less than %v: "+
			"lower --leader-elect-renew-deadline, or raise --leader-elect-lease-duration or --stop-grace", t.StopGrace, leastGrace))
	}
	// Whoever reaches the address can end a term.
	if host, _, err := net.SplitHostPort(o.address); o.address != "" && (err != nil || !isLoopback(host)) {
		errs = append(errs, fmt.Errorf("--address %s is not a port on the loopback interface: use an address such as %s, "+
			"which all containers of the pod reach", o.address, defaultAddress))
	}
	if len(o.command) > 0 {
		if _, err := exec.LookPath(o.command[0]); err != nil {
			errs = append(errs, fmt.Errorf("the command cannot be run: %w: install it in this image, or correct what follows --", err))
		}
	}
	return errors.Join(errs...)
}

// isLoopback reports whether a host is on the loopback interface, whatever a DNS server says.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
