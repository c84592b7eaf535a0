// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/zonelect/zonelect/internal/inspect"
	"github.com/zonelect/zonelect/internal/plain"
)

// printer prints locks in the format that the flags choose.
type printer struct {
	output     string
	noHeaders  bool
	namespaces bool // tables have a column for them

	own     []string // formats
	flags   *genericclioptions.PrintFlags
	objects printers.ResourcePrinter // nil for tables and names
	tables  printers.ResourcePrinter
}

// addFlags adds the flags; own are formats beyond those of objects.
func (p *printer) addFlags(c *cobra.Command, own ...string) {
	p.own = own
	p.flags = genericclioptions.NewPrintFlags("")
	p.flags.NamePrintFlags = nil // own may have name
	p.flags.OutputFormat = &p.output
	p.flags.OutputFlagSpecified = func() bool { return c.Flag("output").Changed }
	p.flags.JSONYamlPrintFlags.AddFlags(c)
	p.flags.TemplatePrinterFlags.AddFlags(c)
	formats := p.formats()
	c.Flags().StringVarP(&p.output, "output", "o", "", fmt.Sprintf("Output format. One of: (%s).", strings.Join(formats, ", ")))
	if len(own) > 0 {
		c.Flags().BoolVar(&p.noHeaders, "no-headers", false, "Leave out the headers of tables.")
	}
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // it fails for a flag that does not exist
}

func (p *printer) complete() error {
	p.tables = newTables(p.noHeaders)
	if p.output == "" && p.forPeople() || slices.Contains(p.own, p.output) {
		return nil
	}
	var err error
	p.objects, err = p.flags.ToPrinter()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		err = fmt.Errorf("use one of %s", strings.Join(p.formats(), ", "))
	}
	if err != nil {
		return usage("--output=%s: %w", p.output, err)
	}
	return nil
}

func (p *printer) formats() []string {
	return slices.Concat(p.own, p.flags.JSONYamlPrintFlags.AllowedFormats(), p.flags.TemplatePrinterFlags.AllowedFormats())
}

// forPeople reports whether tables are printed.
func (p *printer) forPeople() bool {
	template := p.flags.TemplatePrinterFlags.TemplateArgument
	return p.output == "wide" || p.output == "" && (template == nil || *template == "")
}

// one prints one lock, for people with its candidates.
func (p *printer) one(streams genericiooptions.IOStreams, s LockStatus, now time.Time) error {
	if err := p.row(streams.Out, s, now); err != nil || !p.forPeople() {
		return err
	}
	tellRemarks(streams.ErrOut, s.Name, s.Status.Findings)
	if len(s.Status.Candidates) == 0 {
		return nil
	}
	names, rows := candidates(s.Status)
	return errors.Join(say(streams.Out, "\n"), printTable(streams.Out, newTables(p.noHeaders), names, rows))
}

// list prints several locks.
func (p *printer) list(streams genericiooptions.IOStreams, all []LockStatus, now time.Time) error {
	switch {
	case p.forPeople():
		names, rows := p.table(all, now)
		if err := printTable(streams.Out, p.tables, names, rows); err != nil {
			return err
		}
		for _, s := range all {
			said := s.Status.Findings
			said.Warnings = slices.DeleteFunc(slices.Clone(said.Warnings), func(text string) bool {
				return strings.HasPrefix(text, inspect.NobodyLeads) // the row says that
			})
			tellRemarks(streams.ErrOut, s.Name, said)
		}
		return nil
	case p.objects != nil:
		list := &LockStatusList{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: "LockStatusList"}, Items: append([]LockStatus{}, all...)}
		return printObject(streams.Out, p.objects, list)
	}
	var errs []error
	for _, s := range all {
		errs = append(errs, p.row(streams.Out, s, now))
	}
	return errors.Join(errs...)
}

// row prints one lock as a row of a list.
func (p *printer) row(w io.Writer, s LockStatus, now time.Time) error {
	switch {
	case p.objects != nil:
		return printObject(w, p.objects, &s)
	case p.output == "name" && s.Status.State == inspect.Absent && s.Status.Legacy != nil:
		return say(w, "%s\n", s.Status.Legacy.Object)
	case p.output == "name":
		return say(w, "lease.coordination.k8s.io/%s\n", s.Name)
	}
	names, rows := p.table([]LockStatus{s}, now)
	return printTable(w, p.tables, names, rows)
}

// newTables returns a printer of kubectl's tables. It prints the headers again only if they
// differ from the previous ones.
func newTables(noHeaders bool) printers.ResourcePrinter {
	return printers.NewTablePrinter(printers.PrintOptions{NoHeaders: noHeaders})
}

// none is the text of empty cells.
const none = "<none>"

// printTable prints rows with the names of their columns, or nothing if there are no rows.
func printTable(w io.Writer, tables printers.ResourcePrinter, names []string, rows [][]string) error {
	table := &metav1.Table{}
	for _, name := range names {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, row := range rows {
		var cells []any
		for _, text := range row {
			cells = append(cells, cmp.Or(plain.Text(text), none))
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return tables.PrintObj(table, w)
}

// tellRemarks prints the warnings and the notes about a lock.
func tellRemarks(w io.Writer, lock string, f inspect.Findings) {
	for _, warning := range f.Warnings {
		tell(w, "warning: %s: %s\n", lock, warning)
	}
	for _, note := range f.Notes {
		tell(w, "note: %s: %s\n", lock, note)
	}
}
