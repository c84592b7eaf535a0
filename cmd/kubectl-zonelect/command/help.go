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
