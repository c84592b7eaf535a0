// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/zonelect/zonelect/config"
)

const rightsLong = `The output is for 'kubectl apply -f -'. No cluster is asked.

For the candidates of a lock, bound to the service account of their pods:
  lease            the lock, and the candidates' announcements
  events           Events on the Lease
  zone             the zone of a candidate's node
  proof            proof that a leader's container has ended
  leader-for-life  to move off a leader-for-life ConfigMap
  annotation       to move off client-go's election record on a ConfigMap
  dead-nodes       to see that a legacy leader's node is dead

For people, to be bound as the comment in the output says: status, doctor, audit, shift,
migrate, demo.

For the cluster:
  flowcontrol      a queue of their own for requests for Leases`

const rightsExample = `  # What the pods of a service account need for a lock
  kubectl zonelect rights lease events zone proof -n NS --service-account SA --lock LOCK | kubectl apply -f -

  # The ClusterRole of people who look
  kubectl zonelect rights status | kubectl apply -f -`

// rightsCommand is one call of rights.
type rightsCommand struct {
	env       *environment
	namespace string
	home      string // the account's namespace, if that is another

	account, lock, legacyName, legacyKind string
}

func newRights(env *environment) *cobra.Command {
	r := &rightsCommand{env: env}
	c := &cobra.Command{
		Use:               "rights NAME...",
		Short:             "Print the Roles that candidates and people need",
		Long:              rightsLong,
		Example:           rightsExample,
		ValidArgsFunction: cobra.FixedCompletions(granted(), cobra.ShellCompDirectiveNoFileComp),
		RunE:              func(_ *cobra.Command, args []string) error { return failed(r.run(args)) },
	}
	c.Flags().StringVar(&r.account, "service-account", "", "The service account of the candidates' pods: NAME, or NAMESPACE:NAME if it is not in the namespace of the lock.")
	c.Flags().StringVar(&r.lock, "lock", "", "The name of the lock, for rules that are limited to it.")
	c.Flags().StringVar(&r.legacyName, "legacy-name", "", "The name of the legacy lock. Defaults to the lock's.")
	c.Flags().StringVar(&r.legacyKind, "legacy-kind", "configmap", "What has the election record: configmap or endpoints.")
	for _, flag := range []string{"service-account", "lock", "legacy-name"} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions) // the flag exists
	}
	_ = c.RegisterFlagCompletionFunc("legacy-kind", cobra.FixedCompletions(legacyKinds, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return c
}

var legacyKinds = []string{"configmap", "endpoints"}

// granted are the names of what can be printed.
func granted() []string {
	names, _ := fs.Glob(config.Files, "*/*") // the pattern is well-formed
	for i, dir := range names {
		names[i] = path.Base(dir)
	}
	slices.Sort(names)
	return names
}

func (r *rightsCommand) run(names []string) error {
	if len(names) == 0 {
		return usage("rights needs a NAME: use some of %s", strings.Join(granted(), ", "))
	}
	given := r.account
	if home, account, both := strings.Cut(given, ":"); both {
		r.home, r.account = home, account
	}
	faults := validation.IsDNS1123Subdomain(r.account)
	if r.home != "" {
		faults = append(faults, validation.IsDNS1123Label(r.home)...)
	}
	if given != "" && len(faults) > 0 {
		return usage("--service-account=%s: %s", given, strings.Join(faults, "; "))
	}
	if !slices.Contains(legacyKinds, r.legacyKind) {
		return usage("--legacy-kind=%s: use one of %s", r.legacyKind, strings.Join(legacyKinds, ", "))
	}
	var err error
	if r.namespace, _, err = r.env.config.ToRawKubeConfigLoader().Namespace(); err != nil {
		return fmt.Errorf("choose the namespace: %w", err)
	}
	var all strings.Builder
	for _, name := range names {
		if !slices.Contains(granted(), name) {
			return usage("rights has no %q: use some of %s", name, strings.Join(granted(), ", "))
		}
		if err := r.write(&all, name); err != nil {
			return err
		}
	}
	_, err = r.env.streams.Out.Write([]byte(all.String()))
	return err
}

// write writes the objects of config/*/NAME.
func (r *rightsCommand) write(to *strings.Builder, name string) error {
	all, err := r.objects(name)
	if err != nil {
		return err
	}
	for _, o := range all {
		printed, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		to.WriteString("---\n" + o.comment + string(printed))
	}
	return nil
}

// granting is an object that grants something, and what is said above it.
type granting struct {
	unstructured.Unstructured
	comment string
}

// objects returns the objects of config/*/NAME.
func (r *rightsCommand) objects(name string) ([]granting, error) {
	files, err := fs.Glob(config.Files, "*/"+name+"/*")
	if err != nil {
		return nil, err
	}
	text := ""
	for _, file := range files {
		raw, err := fs.ReadFile(config.Files, file)
		if err != nil {
			return nil, err
		}
		text += "\n---\n" + string(raw)
	}
	bound := strings.Contains(text, "\n- kind: ServiceAccount\n")
	if bound && r.account == "" {
		return nil, usage("%s needs --service-account: that of the candidates' pods ('kubectl get pods -n %s -o custom-columns=POD:.metadata.name,ACCOUNT:.spec.serviceAccountName')", name, r.namespace)
	}
	if name == "annotation" && r.legacyKind == "endpoints" {
		text = strings.ReplaceAll(text, "resources: [configmaps]", "resources: [endpoints]")
	}
	object := r.lock
	if name != "lease" {
		object = cmp.Or(r.legacyName, r.lock)
	}
	var all []granting
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o granting
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			return nil, err
		}
		if len(o.Object) == 0 {
			continue
		}
		if bound {
			if err := r.fill(&o.Unstructured, object); err != nil {
				return nil, err
			}
		}
		o.comment, _, _ = strings.Cut(document, "apiVersion:")
		all = append(all, o)
	}
	return all, nil
}

// sample is the name of the operator in config/: that of its service account, and of its lock.
const sample = "my-operator"

// fill fills in the namespace, the account, and the lock's object.
func (r *rightsCommand) fill(o *unstructured.Unstructured, object string) error {
	end := "-" + r.account
	if r.home != "" {
		end = "-" + r.home + end
	}
	switch {
	case strings.HasPrefix(o.GetKind(), "Cluster") || o.GetNamespace() != "": // shared by all namespaces
		end = "-" + r.namespace + end
	default:
		o.SetNamespace(r.namespace)
	}
	o.SetName(o.GetName() + end)
	if strings.HasSuffix(o.GetKind(), "Binding") {
		subject := map[string]any{"kind": "ServiceAccount", "name": r.account, "namespace": cmp.Or(r.home, r.namespace)}
		return errors.Join(unstructured.SetNestedField(o.Object, o.GetName(), "roleRef", "name"),
			unstructured.SetNestedSlice(o.Object, []any{subject}, "subjects"))
	}
	rules, _, err := unstructured.NestedSlice(o.Object, "rules")
	for _, rule := range rules {
		if rule, is := rule.(map[string]any); is {
			names, _ := rule["resourceNames"].([]any)
			if i := slices.Index(names, any(sample)); i >= 0 && object == "" {
				return usage("%s is limited to the lock: it needs --lock", o.GetName())
			} else if i >= 0 {
				names[i] = object
			}
		}
	}
	return errors.Join(err, unstructured.SetNestedSlice(o.Object, rules, "rules"))
}
