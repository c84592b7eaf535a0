// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is how many columns a help text has at most.
const helpWidth = 100

// helpTemplate has what a command is for, examples, and then the rest.
const helpTemplate = `{{.Short}}.

{{if .HasExample}}{{.Example}}

{{end}}{{with .Long}}{{. | trimTrailingWhitespaces}}

{{end}}{{if .HasAvailableSubCommands}}Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}

{{end}}Usage: {{if .Runnable}}{{.UseLine}}{{else}}{{.CommandPath}} COMMAND{{end}}

{{with brief .}}{{.}}
{{end}}{{footer .}}
`

func init() {
	cobra.AddTemplateFunc("brief", func(c *cobra.Command) string { return briefFlags(c).FlagUsagesWrapped(helpWidth) })
	cobra.AddTemplateFunc("footer", footer)
}

// footer says where the other flags are.
func footer(c *cobra.Command) string {
	if c.HasParent() {
		return "The root's --help has the flags of all commands, such as --namespace and --context."
	}
	return "'kubectl options' lists the other flags, which are kubectl's own."
}

var (
	// ofTemplates are the flags of kubectl's templates, which the root's help explains.
	ofTemplates = []string{"allow-missing-template-keys", "show-managed-fields", "template"}
	// ofAll are the flags of all commands that their help shows.
	ofAll = []string{"namespace", "context", "kubeconfig", "help", "version"}
)

// briefFlags returns a command's own flags in as few words as its help has for them.
func briefFlags(c *cobra.Command) *pflag.FlagSet {
	brief := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(ofTemplates, f.Name) || !c.HasParent() && !slices.Contains(ofAll, f.Name) {
			return
		}
		own := *f
		own.Usage = briefUsage(f)
		brief.AddFlag(&own)
	})
	return brief
}

// briefUsage returns what a flag is for; of -o only the formats that people use.
func briefUsage(f *pflag.Flag) string {
	before, _, is := strings.Cut(f.Usage, "json, yaml, ")
	if !is || f.Name != "output" {
		return f.Usage
	}
	_, before, _ = strings.Cut(before, "(")
	return before + "json, yaml, jsonpath=..., go-template=... and others of kubectl get."
}

// detailed adds details to a command's help.
func detailed(c *cobra.Command, details string) *cobra.Command {
	c.Long += "\n\n" + details
	return c
}

const rootDetails = `Programs read the output with -o. It takes the formats of 'kubectl get': json, yaml, kyaml, jsonpath,
jsonpath-as-json, jsonpath-file, go-template, go-template-file, template and templatefile, with the flags
--template, --allow-missing-template-keys and --show-managed-fields.`

const statusDetails = `A lock looks stale by the clock of this machine, which may differ from the holder's. So the command
watches such a lock for --observe before it calls the lock stale.

LEADER: in phase dual the holder's work may not have begun. A holder that waits for legacy pods says so
on its presence object. A holder without a presence cannot say so.

SINCE: a leader that fell silent may have worked on for a part of the time shown, up to RenewDeadline and
StopGrace.

LAST FAILOVER: when the leader took the lock, by its clock, and how the lock had come free:

  released   the holder gave the lock up, and nobody led for a second or longer
  expired    the holder did not renew the lock for a whole lease
  died       the holder's process was proven to have ended
  reclaimed  the holder took back its own lock, for example after an API outage
  cleared    somebody removed the holder's name, and the lease ran out
  deleted    somebody deleted the Lease, and the lease ran out

<none>: the term of the leader began with a handover or a rollout, or it is the first. The Lease does not
keep what was before: Events, metrics and traces tell.

NOBODY LED: from the leader's first sight of the last renewal or the release until it sent its acquisition.
The old leader may have worked for a part of that time. <none>: it did not see the renewal.

NEXT: candidates order themselves by health, evacuated zones, the zone that fell silent, preferred zones
and a hash. NEXT leaves out candidates whose pod or node is known to be gone and, for a minute after a
failover, the leader that was lost, because a node that lost its power looks alive for that long. If the
first candidate does not come, the second goes a moment later. A handover may name another. "nobody": no
other candidate that announced itself can run. "-": not known, because no candidate announced itself, or
one has a takeover delay of its own or other preferences.

LEASE LEFT goes up with each renewal. Only when nothing is left may another candidate take over, unless
the leader releases the lock or is proven dead. LEASE LEFT is not the trust of the leader, which stops
its work sooner, after RenewDeadline. With a tilde the number comes from the holder's clock and this
machine's, which may differ. Without a tilde this command saw the renewal, as with --watch.

TOKEN: the leader writes the token with its first renewal, a few seconds after it took the Lease.

Candidates announce themselves with presence objects, which are deleted with their pods. A presence has
what its candidate said last. Only the pod and the node show whether the candidate still runs. The command
reads them if you name one LOCK, and otherwise only those of NEXT.

A lock that does not fit into the terminal's width is printed as a list, and one that needs attention has
a color. With --watch, a terminal shows the present state below what has changed, and any other output gets
a line for each change. Changes of a legacy object alone show within 5 seconds.

Without LOCK, the command lists the Leases that have zonelect's annotations or candidates.`

const doctorDetails = `The checks:
  lock         who leads, since when; or the state of a lock that nobody leads
  candidates   how many there are, where, whether they are ready, healthy and of one workload
  environment  what the candidates do not know about themselves: their pod, node or zone
  workload     a grace period that is too short to release the lock
  timing       how slow requests may become, or a lease that does not end; no request is measured
  rights       whether the candidates' service accounts may write the lock
  legacy       who has the legacy lock, whether a migration stands still

Without a Lease, these say what is known: in which zones there are nodes, and with --service-account what
that account may do.`

const evacuateDetails = `A leader stays if there is no candidate elsewhere, and moves as soon as there is one. A leader whose zone
nobody knows counts as one that stayed. A candidate that does not know its zone is in that of its node's
label. --until goes by the clocks of the candidates.

The command needs the verbs get, list, watch and update on leases. To know of zones without candidates,
and of candidates that do not know their zone, it needs get and list on nodes.`
