// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
)

var update = flag.Bool("update", false, "write the documents that are generated")

// generated holds a document against what its source says.
func generated(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(read(t, name)); got != want {
		t.Errorf("%s is not what its source says: run go test ./docs -update", name)
	}
}

// table returns a table of Markdown. Cells hold no "|".
func table(heads string, rows [][]string) string {
	text := "| " + heads + " |\n|" + strings.Repeat("---|", strings.Count(heads, "|")+1) + "\n"
	for _, row := range rows {
		text += "| " + strings.Join(row, " | ") + " |\n"
	}
	return strings.ReplaceAll(text, "|  |", "| |")
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// changed returns the exported fields that differ between two structs, with the names of those around
// them.
func changed(a, b reflect.Value, in string) (fields []string) {
	for i := range a.NumField() {
		f := a.Type().Field(i)
		switch {
		case !f.IsExported() || reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
		case f.Type.Kind() == reflect.Struct:
			fields = append(fields, changed(a.Field(i), b.Field(i), in+f.Name+".")...)
		default:
			fields = append(fields, in+f.Name)
		}
	}
	return fields
}

// fieldOf returns the field of operator.Options that a flag sets.
func fieldOf(t *testing.T, name string) string {
	t.Helper()
	var o operator.Options
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(fs)
	before := o
	value := "x"
	switch f := fs.Lookup(name); f.Value.Type() {
	case "bool":
		value = strconv.FormatBool(f.DefValue != "true")
	case "duration":
		value = "7m"
	case "string":
		if name == "leader-elect-timing" {
			value = "fast"
		}
	}
	if err := fs.Set(name, value); err != nil {
		t.Fatal(err)
	}
	fields := changed(reflect.ValueOf(before), reflect.ValueOf(o), "")
	switch {
	case len(fields) == 1 && fields[0] == "Disabled":
		return "not `Disabled`"
	case len(fields) == 1:
		return code(fields[0])
	case !slices.ContainsFunc(fields, func(f string) bool { return !strings.HasPrefix(f, "Timing.") }):
		return "`Timing`"
	}
	t.Fatalf("--%s sets %q", name, fields)
	return ""
}

func flagRows(t *testing.T) (rows [][]string) {
	t.Helper()
	row := func(f *pflag.Flag, field string) {
		variable := strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		rows = append(rows, []string{"`--" + f.Name + "`<br>" + code(variable), field, code(strings.Trim(f.DefValue, "[]")), f.Usage})
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	new(operator.Options).AddFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) { row(f, fieldOf(t, f.Name)) })
	return rows
}

var (
	sentence = regexp.MustCompile(`\.(?:\s+[A-Z]|$)`)
	means    = regexp.MustCompile(`(?:^|\. )(?:Nil|Zero|Empty) means (.*?)(?:, so that .*?)?\.(?: [A-Z]|$)`)
	docLink  = regexp.MustCompile(`\[([A-Za-z.]+)\]`)
	subject  = regexp.MustCompile(`^(\w+) (?:(?:is|are|says that|says) |([a-z]+s ))`)
)

// otherwise has what the reference says of fields whose comment says too little.
var otherwise = map[string]string{
	"CampaignUnfinished": "Campaigns again after work that returned ErrUnfinished. What is left of that work runs beside the next term's.",
	"Settle":             "In a migration: how long a candidate waits before it leads, once it owns the shield (M7). By default 5 s before Kubernetes 1.35, and nothing from then on.",
	"TracerProvider":     "Receives [traces](tracing.md).",
	"MeterProvider":      "Receives [metrics](metrics.md).",
	"Self.Identity":      "Must be unique per process start. By default one is made up.",
}

// fieldRows has the fields of a struct, by the comments of its source, except for those in set.
func fieldRows(t *testing.T, file, name, prefix string, set map[string]bool, defaults map[string]string) (rows [][]string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.TypeSpec)
		if !is || spec.Name.Name != name {
			return true
		}
		before := ""
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			doc := f.Doc.Text() + f.Comment.Text()
			if doc == "" && strings.Contains(before, f.Names[0].Name) {
				doc = before // one comment for several fields
			}
			before = doc
			doc = docLink.ReplaceAllString(strings.Join(strings.Fields(doc), " "), "$1")
			short := doc
			if end := sentence.FindStringIndex(doc); end != nil {
				short = doc[:end[0]+1]
			}
			if m := subject.FindStringSubmatch(short); m != nil && m[1] == f.Names[0].Name { // the row names it
				short = m[2] + short[len(m[0]):]
				short = strings.ToUpper(short[:1]) + short[1:]
			}
			if say := otherwise[prefix+f.Names[0].Name]; say != "" {
				short = say
			}
			var names []string
			for _, n := range f.Names {
				if n.IsExported() && !set[prefix+n.Name] {
					names = append(names, code(prefix+n.Name))
				}
			}
			if len(names) == 0 || doc == "" || short == "-" { // that of Self without a comment are in the table of variables
				continue
			}
			def := ""
			if m := means.FindStringSubmatch(doc); m != nil {
				def = m[1]
			}
			if d, has := defaults[f.Names[0].Name]; has {
				def = code(d)
			}
			rows = append(rows, []string{strings.Join(names, ", "), def, short})
		}
		return false
	})
	if len(rows) == 0 {
		t.Fatalf("%s has no fields of %s", file, name)
	}
	return rows
}

// sidecarRows has the flags that zonelect-sidecar alone has, by its source.
func sidecarRows(t *testing.T) (rows [][]string) {
	t.Helper()
	const file = "../cmd/zonelect-sidecar/internal/sidecar/options.go"
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{}
	var text func(e ast.Expr) string
	text = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			s, _ := strconv.Unquote(e.Value)
			return s
		case *ast.BinaryExpr:
			return text(e.X) + text(e.Y)
		case *ast.Ident:
			return constants[e.Name]
		}
		return ""
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if len(n.Values) == 1 {
				constants[n.Names[0].Name] = text(n.Values[0])
			}
		case *ast.CallExpr:
			f, is := n.Fun.(*ast.SelectorExpr)
			if on, named := ast.Node(nil), false; is {
				on = f.X
				if id, isID := on.(*ast.Ident); isID {
					named = id.Name == "fs"
				}
				if !named || !regexp.MustCompile(`^(String|Duration|Bool)(Var)?$`).MatchString(f.Sel.Name) {
					return true
				}
				name := text(n.Args[len(n.Args)-3])
				rows = append(rows, []string{"`--" + name + "`", text(n.Args[len(n.Args)-1])})
			}
		}
		return true
	})
	if len(rows) < 4 {
		t.Errorf("%s has the flags %q", file, rows)
	}
	return rows
}

// selfVariables says what each variable is for that says where a process runs.
var selfVariables = [][]string{
	{"POD_NAME", "PodName", "`metadata.name`", "The pod's name."},
	{"POD_UID", "PodUID", "`metadata.uid`", "The pod's UID."},
	{"POD_NAMESPACE", "Namespace", "`metadata.namespace`", "The pod's namespace, and the lock's unless `Options.Namespace` is set."},
	{"NODE_NAME", "Node", "`spec.nodeName`", "The node's name."},
	{"NODE_ZONE", "Zone", "`metadata.labels['topology.kubernetes.io/zone']`, since Kubernetes 1.35", "The zone, for preferred zones and evacuations."},
	{"CONTAINER_NAME", "Container", "none: write the name", "The container's name, for a proof of death."},
}

func TestTheReferenceIsWhatTheCodeHas(t *testing.T) {
	flags := flagRows(t)
	set := map[string]bool{"Timing": true, "Health": true, "Self": true, "Disabled": true}
	for _, f := range flags {
		for _, m := range regexp.MustCompile("`([A-Za-z.]+)`").FindAllStringSubmatch(f[1], -1) {
			set[m[1]] = true
		}
	}
	d := election.Timing{}.WithDefaults()
	defaults := map[string]string{"StopGrace": d.StopGrace.String(), "Precedence": d.Precedence.String(), "MaxClockDrift": fmt.Sprint(d.MaxClockDrift)}
	fields := fieldRows(t, "../operator/options.go", "Options", "", set, nil)
	fields = append(fields, fieldRows(t, "../election/timing/timing.go", "Timing", "Timing.", set, defaults)...)
	fields = append(fields, fieldRows(t, "../election/health.go", "Health", "Health.", set, nil)...)
	fields = append(fields, fieldRows(t, "../operator/options.go", "SelfOptions", "Self.", set, nil)...)
	if len(fields) < 20 {
		t.Errorf("there are only %d fields", len(fields))
	}
	self := string(read(t, "../internal/environment/self.go"))
	for _, v := range regexp.MustCompile(`(?m)^\tenv[A-Z]\w+ += "(.*)"$`).FindAllStringSubmatch(self, -1) {
		if v[1] != "KUBERNETES_SERVICE_HOST" && !slices.ContainsFunc(selfVariables, func(row []string) bool { return row[0] == v[1] }) {
			t.Errorf("the reference has no variable %s", v[1])
		}
	}
	var variables [][]string
	for _, row := range selfVariables {
		if !strings.Contains(self, `"`+row[0]+`"`) {
			t.Errorf("nothing reads the variable %s", row[0])
		}
		variables = append(variables, append([]string{code(row[0]) + "<br>" + code("Self."+row[1])}, row[2:]...))
	}
	generated(t, "reference.md", strings.TrimSpace(fmt.Sprintf(referenceText,
		table("flag, variable | field of `Options` | default | meaning", flags),
		table("field of `Options` | default | meaning", fields),
		table("variable, field of `Options` | field of the downward API | meaning", variables),
		table("flag | meaning", sidecarRows(t))))+"\n")
}

// referenceText is the document around the tables.
const referenceText = `# Reference

<!-- Generated from the code: go test ./docs -run Reference -update -->

## Flags, variables and fields

` + "`Options.AddFlags`" + ` and ` + "`AddGoFlags`" + ` add the flags and read the variables. A program without flags calls ` + "`Options.FromEnvironment`" + `;
` + "`operator.Become`" + ` and ` + "`zonelect-sidecar`" + ` read the variables themselves. A flag wins over its variable, and a
variable over the field. A variable whose name is nearly one of these is an error. Other variables with the prefix
` + "`LEADER_ELECT_`" + ` are logged. [Timing](timing.md) says how the durations depend on each other.

%s
## Fields without a flag

%s
## Where a process runs

A pod needs none of these variables. [What a pod knows](install.md#what-a-pod-knows-about-itself) says what wins over
what.

%s
Outside a cluster, ` + "`KUBECONFIG`" + ` names the kubeconfig. The default is ` + "`~/.kube/config`" + `.

## The sidecar's own flags

[zonelect-sidecar](sidecar.md) also has all flags and variables of the first table, with
` + "`--leader-elect-exit-on-overrun`" + ` on by default. Its own flags have no variables.

%s`

// TestADurationOfTheReferenceIsReadable: no default is written in nanoseconds.
func TestADurationOfTheReferenceIsReadable(t *testing.T) {
	if d := (election.Timing{}).WithDefaults(); d.StopGrace != 4850*time.Millisecond {
		t.Errorf("the StopGrace is %v, and pages say 4.85 s", d.StopGrace)
	}
}
