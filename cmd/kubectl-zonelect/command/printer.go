// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/zonelect/zonelect/internal/inspect"
)

// printer prints locks in the format that the flags choose.
type printer struct {
	output     string
	noHeaders  bool
	namespaces bool // tables have a column for them
	times      bool // tables have a column for when each line was printed

	own     []string // formats
	flags   *genericclioptions.PrintFlags
	objects printers.ResourcePrinter // nil for tables and names
	tables  printers.ResourcePrinter
}

// addFlags adds the flags; own are formats beyond those of objects.
func (p *printer) addFlags(c *cobra.Command, own ...string) {
	p.own = own
	p.flags = genericclioptions.NewPrintFlags("")
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
	p.tables = printers.NewTablePrinter(printers.PrintOptions{Wide: p.output == "wide", NoHeaders: p.noHeaders})
	if p.output == "" && p.forPeople() || slices.Contains(p.own, p.output) {
		return nil
	}
	if p.output != "" && !slices.Contains(p.formats(), p.format()) {
		return usage("--output=%s: use one of %s", p.output, strings.Join(p.formats(), ", "))
	}
	var err error
	if p.objects, err = p.flags.ToPrinter(); err != nil {
		return usage("--output=%s: %w", p.output, err)
	}
	return nil
}

// format is the output format without its template.
func (p *printer) format() string {
	format, _, _ := strings.Cut(p.output, "=")
	return format
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
	tellAll(streams.ErrOut, notes(s))
	if len(s.Status.Candidates) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(streams.Out); err != nil {
		return err
	}
	return p.candidates(streams.Out, s)
}

// list prints several locks.
func (p *printer) list(streams genericiooptions.IOStreams, all []LockStatus, now time.Time) error {
	switch {
	case p.forPeople():
		table := &metav1.Table{ColumnDefinitions: p.columns()}
		for _, s := range all {
			table.Rows = append(table.Rows, metav1.TableRow{Cells: p.cells(s, now)})
		}
		if len(all) == 0 {
			return nil
		}
		if err := p.tables.PrintObj(table, streams.Out); err != nil {
			return err
		}
		for _, s := range all {
			tellAll(streams.ErrOut, notes(s))
		}
		return nil
	case p.objects == nil:
		var errs []error
		for _, s := range all {
			errs = append(errs, p.row(streams.Out, s, now))
		}
		return errors.Join(errs...)
	default:
		list := &LockStatusList{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: "LockStatusList"}, Items: all}
		return p.objects.PrintObj(list, streams.Out)
	}
}

// row prints one lock as it stands among others.
func (p *printer) row(w io.Writer, s LockStatus, now time.Time) error {
	switch {
	case p.objects != nil:
		return p.objects.PrintObj(&s, w)
	case p.output == "name":
		_, err := fmt.Fprintln(w, nameOf(s))
		return err
	default:
		table := &metav1.Table{ColumnDefinitions: p.columns(), Rows: []metav1.TableRow{{Cells: p.cells(s, now)}}}
		return p.tables.PrintObj(table, w)
	}
}

// nameOf is what kubectl calls the lock's object.
func nameOf(s LockStatus) string {
	if s.Status.State == inspect.Absent && s.Status.Legacy != nil {
		return s.Status.Legacy.Object
	}
	return "lease.coordination.k8s.io/" + s.Name
}

// notes are the warnings and the notes about a lock, as they are printed.
func notes(s LockStatus) []string {
	var all []string
	for _, warning := range s.Status.Warnings {
		all = append(all, "warning: "+s.Name+": "+printable(warning))
	}
	for _, note := range s.Status.Notes {
		all = append(all, "note: "+s.Name+": "+printable(note))
	}
	return all
}

// printable keeps what others wrote from moving the cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}
