// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/zonelect/zonelect/internal/plain"
)

// printer prints results in the format that the flags choose.
type printer struct {
	flags   *genericclioptions.PrintFlags
	objects printers.ResourcePrinter // nil for tables
}

// addFlags adds the flags.
func (p *printer) addFlags(c *cobra.Command) {
	p.flags = genericclioptions.NewPrintFlags("")
	p.flags.NamePrintFlags = nil // no server knows what is printed
	p.flags.AddFlags(c)
	for _, rare := range []string{"allow-missing-template-keys", "show-managed-fields", "template"} { // as in kubectl
		c.Flag(rare).Hidden = true
	}
}

func (p *printer) complete() (err error) {
	output, template := *p.flags.OutputFormat, p.flags.TemplatePrinterFlags.TemplateArgument
	if output == "" && (template == nil || *template == "") {
		return nil
	}
	if p.objects, err = p.flags.ToPrinter(); err != nil {
		return usage("--output=%s: %w", output, err)
	}
	return nil
}

// apiVersion is the version of the printed objects. No server knows it.
const apiVersion = "zonelect.dev/v1alpha1"

// object returns a value as an object of a kind.
func object(kind string, of types.NamespacedName, v any) (*unstructured.Unstructured, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{}
	err = utiljson.Unmarshal(raw, &o.Object)
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(of.Namespace)
	o.SetName(of.Name)
	return o, err
}

// object prints a value as an object of a kind.
func (p *printer) object(w io.Writer, kind string, of types.NamespacedName, v any) error {
	o, err := object(kind, of, v)
	if err != nil {
		return err
	}
	return p.objects.PrintObj(o, w)
}

// none is the text of empty cells.
const none = "<none>"

// printTable prints rows with the names of their columns, or nothing if there are no rows.
func printTable(w io.Writer, names []string, rows [][]string) error {
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
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, w)
}
