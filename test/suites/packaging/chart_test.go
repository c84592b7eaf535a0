// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/zonelect/zonelect/operator"
	"github.com/zonelect/zonelect/test/kit/manifests"
)

// samples are a value for each flag that is not its default.
var samples = map[string]string{
	"leader-elect":                    "false",
	"leader-elect-resource-name":      "lock",
	"leader-elect-resource-namespace": "elsewhere",
	"leader-elect-lease-duration":     "20s",
	"leader-elect-renew-deadline":     "12s",
	"leader-elect-retry-period":       "3s",
	"leader-elect-timing":             "patient",
	"leader-elect-attempt-timeout":    "1500ms",
	"leader-elect-exclusive":          "true",
	"leader-elect-stop-timeout":       "1m0s",
	"leader-elect-preferred-zones":    "za,zb",
	"leader-elect-exit-on-overrun":    "true",
	"leader-elect-server":             "https://a:6443,https://b:6443",
	"leader-elect-service":            "lead",
	"leader-elect-resource-lock":      "configmapsleases",
	"leader-elect-mode":               "auto",
	"leader-elect-legacy-kind":        "configmap",
	"leader-elect-legacy-name":        "old",
	"leader-elect-pod-selector":       "app=my-operator,tier in (a)",
	"leader-elect-legacy-grace":       "0s",
}

// flags are those of package operator.
func flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	new(operator.Options).AddFlags(fs)
	return fs
}

// key is the value's name below election: leaseDuration of leader-elect-lease-duration.
func key(flag string) string {
	if flag == "leader-elect" {
		return "enabled"
	}
	parts := strings.Split(strings.TrimPrefix(flag, "leader-elect-"), "-")
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
	}
	return strings.Join(parts, "")
}

// setting is the argument of helm that sets a flag's value.
func setting(flag *pflag.Flag, value string) []string {
	if flag.Value.Type() == "stringSlice" {
		return []string{"--set", "election." + key(flag.Name) + "={" + value + "}"}
	}
	if flag.Value.Type() == "bool" {
		return []string{"--set", "election." + key(flag.Name) + "=" + value}
	}
	return []string{"--set-string", "election." + key(flag.Name) + "=" + strings.ReplaceAll(value, ",", `\,`)}
}

func TestTheChartPassesHelmsLint(t *testing.T) {
	for _, more := range []string{"", "election.mode=auto", "election.service=lead", "flowControl.create=true", "sidecar.enabled=true,sidecar.image.repository=s,sidecar.image.tag=v1"} {
		args := append([]string{"lint", "--strict", chart}, values(image, more)...)
		if out, err := helm(t, args...); err != nil || strings.Contains(out, "[WARN") {
			t.Errorf("%s: %v\n%s", more, err, out)
		}
	}
}

// TestEachFlagHasAValueAndASchema: a new flag of package operator must come to the chart too.
func TestEachFlagHasAValueAndASchema(t *testing.T) {
	want := []string{"passAs"}
	flags().VisitAll(func(f *pflag.Flag) { want = append(want, key(f.Name)) })
	slices.Sort(want)
	read := func(file string, into any) {
		raw, err := os.ReadFile(filepath.Join(chart, file))
		must(t, err)
		must(t, yaml.Unmarshal(raw, into))
	}
	var has struct {
		Election map[string]any `json:"election"`
	}
	read("values.yaml", &has)
	if got := slices.Sorted(maps.Keys(has.Election)); !slices.Equal(got, want) {
		t.Errorf("values.yaml has the options %q, want %q", got, want)
	}
	var schema struct {
		Properties struct {
			Election struct {
				Properties           map[string]any `json:"properties"`
				AdditionalProperties *bool          `json:"additionalProperties"`
			} `json:"election"`
		} `json:"properties"`
	}
	read("values.schema.json", &schema)
	if got := slices.Sorted(maps.Keys(schema.Properties.Election.Properties)); !slices.Equal(got, want) {
		t.Errorf("values.schema.json has the options %q, want %q", got, want)
	}
	if more := schema.Properties.Election.AdditionalProperties; more == nil || *more {
		t.Error("values.schema.json allows misspelled options")
	}
}

// parsed are the options of flags.
func parsed(t *testing.T, args ...string) operator.Options {
	t.Helper()
	var o operator.Options
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(fs)
	must(t, fs.Parse(args))
	return o
}

// fromEnvironment are the options of a container's variables, which flags could change.
func fromEnvironment(t *testing.T, c corev1.Container) operator.Options {
	t.Helper()
	environment(t, c)
	var o operator.Options
	must(t, o.FromEnvironment())
	o.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return o
}

// manager is the container of the program.
func manager(t *testing.T, all manifests.Objects) corev1.Container {
	t.Helper()
	containers := one[appsv1.Deployment](t, all, "Deployment").Spec.Template.Spec.Containers
	if len(containers) != 1 || containers[0].Name != "manager" {
		t.Fatalf("the containers are %+v", containers)
	}
	return containers[0]
}

// TestEachOptionReachesTheProgram, as a variable and as a flag.
func TestEachOptionReachesTheProgram(t *testing.T) {
	flags().VisitAll(func(f *pflag.Flag) {
		t.Run(f.Name, func(t *testing.T) {
			value := samples[f.Name]
			if value == "" || value == f.DefValue {
				t.Fatalf("the flag has no sample that is not its default, %q", f.DefValue)
			}
			want := parsed(t, "--leader-elect", "--"+f.Name+"="+value)
			args := append(values(image, "replicas=1"), setting(f, value)...)
			if got := fromEnvironment(t, manager(t, render(t, chart, args...))); !reflect.DeepEqual(got, want) {
				t.Errorf("the environment makes\n%+v, want\n%+v", got, want)
			}
			c := manager(t, render(t, chart, append(args, values("election.passAs=arguments")...)...))
			if got := parsed(t, c.Args...); !reflect.DeepEqual(got, want) {
				t.Errorf("the arguments %q make\n%+v, want\n%+v", c.Args, got, want)
			}
			if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return strings.HasPrefix(e.Name, "LEADER_ELECT") }) {
				t.Errorf("beside arguments there are the variables %+v", c.Env)
			}
		})
	})
}

func TestTheDefaultsLeaveEverythingToTheProgram(t *testing.T) {
	all := render(t, chart, values(image)...)
	if got, want := fromEnvironment(t, manager(t, all)), parsed(t, "--leader-elect"); !reflect.DeepEqual(got, want) {
		t.Errorf("the environment makes\n%+v, want\n%+v", got, want)
	}
}

// TestTheDeploymentIsThatOfConfig, and the disruption budget too.
func TestTheDeploymentIsThatOfConfig(t *testing.T) {
	want := manifests.Kustomize(t, filepath.Join(config, "operator", "base"))
	got := render(t, chart, values(image, "election.passAs=arguments")...)
	ours, theirs := one[appsv1.Deployment](t, got, "Deployment"), one[appsv1.Deployment](t, want, "Deployment")
	a, b := ours.Spec.Template.Spec, theirs.Spec.Template.Spec
	labels := ours.Spec.Template.Labels
	for _, selector := range append([]map[string]string{ours.Spec.Selector.MatchLabels, one[policyv1.PodDisruptionBudget](t, got, "PodDisruptionBudget").Spec.Selector.MatchLabels},
		a.TopologySpreadConstraints[0].LabelSelector.MatchLabels, a.TopologySpreadConstraints[1].LabelSelector.MatchLabels) {
		if !maps.Equal(selector, labels) {
			t.Errorf("%v does not select the pods, which have %v", selector, labels)
		}
	}
	for i := range a.TopologySpreadConstraints {
		a.TopologySpreadConstraints[i].LabelSelector = b.TopologySpreadConstraints[i].LabelSelector
	}
	for what, pair := range map[string][2]any{
		"spread":          {a.TopologySpreadConstraints, b.TopologySpreadConstraints},
		"grace":           {a.TerminationGracePeriodSeconds, b.TerminationGracePeriodSeconds},
		"service account": {a.ServiceAccountName, b.ServiceAccountName},
		"replicas":        {ours.Spec.Replicas, theirs.Spec.Replicas},
		"environment":     {a.Containers[0].Env, b.Containers[0].Env},
		"pod's security":  {a.SecurityContext, b.SecurityContext},
		"security":        {a.Containers[0].SecurityContext, b.Containers[0].SecurityContext},
		"resources":       {a.Containers[0].Resources, b.Containers[0].Resources},
		"image":           {a.Containers[0].Image, b.Containers[0].Image},
		"options":         {parsed(t, a.Containers[0].Args...), parsed(t, b.Containers[0].Args...)},
		"budget": {one[policyv1.PodDisruptionBudget](t, got, "PodDisruptionBudget").Spec.MaxUnavailable,
			one[policyv1.PodDisruptionBudget](t, want, "PodDisruptionBudget").Spec.MaxUnavailable},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: the chart has %s, config has %s", what, text(pair[0]), text(pair[1]))
		}
	}
}

func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func TestWhatWouldNotWorkIsRefused(t *testing.T) {
	for set, want := range map[string]string{
		"":                                   "image.repository is missing",
		"image.repository=x":                 "image.tag is missing",
		image + ",election.leaseTime=1s":     "additional properties 'leaseTime' not allowed",
		image + ",election.mode=both":        "/election/mode",
		image + ",election.leaseDuration=15": "/election/leaseDuration",
		image + ",election.stopTimeout=1m,terminationGracePeriodSeconds=60":              "leave the leader more than that",
		image + ",election.enabled=false":                                                "all of them would lead",
		image + ",sidecar.enabled=true":                                                  "sidecar.image.repository is missing",
		image + ",sidecar.enabled=true,sidecar.form=command":                             "needs a command",
		image + ",leaderService.ports[0].port=80,leaderService.ports[0].targetPort=http": "/leaderService/ports/0/targetPort",
	} {
		if out, err := helm(t, append([]string{"template", "op", chart}, values(set)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q\n%s", set, err, want, out)
		}
	}
}

func TestAGraceIsLongerThanTheStopTimeout(t *testing.T) {
	for stop, want := range map[string]int64{"": 40, "1m30.5s": 100, "2h": 7210, "500ms": 10} {
		d := one[appsv1.Deployment](t, render(t, chart, values(image, "election.stopTimeout="+stop)...), "Deployment")
		if got := *d.Spec.Template.Spec.TerminationGracePeriodSeconds; got != want {
			t.Errorf("a StopTimeout of %q makes a grace of %d s, want %d s", stop, got, want)
		}
	}
}

func TestASidecarThatIsPolledHasTheElectionAndNoProofOfDeath(t *testing.T) {
	all := render(t, chart, values(image, "sidecar.enabled=true,sidecar.image.repository=example.com/zonelect-sidecar,sidecar.image.tag=v1,sidecar.stopGrace=2s,election.leaseDuration=20s")...)
	spec := one[appsv1.Deployment](t, all, "Deployment").Spec.Template.Spec
	if len(spec.InitContainers) != 1 || spec.InitContainers[0].RestartPolicy == nil || *spec.InitContainers[0].RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Fatalf("the init containers are %s", text(spec.InitContainers))
	}
	c := spec.InitContainers[0]
	if got, want := fromEnvironment(t, c), parsed(t, "--leader-elect", "--leader-elect-resource-name=my-operator", "--leader-elect-lease-duration=20s"); !reflect.DeepEqual(got, want) {
		t.Errorf("the sidecar's environment makes\n%+v, want\n%+v", got, want)
	}
	if probe := c.LivenessProbe; len(c.Ports) != 1 || probe == nil || probe.HTTPGet.Path != "/healthz" || probe.HTTPGet.Port.IntValue() != int(c.Ports[0].ContainerPort) {
		t.Errorf("the sidecar's ports are %s and its probe %s", text(c.Ports), text(probe))
	}
	if !slices.Equal(c.Args, []string{"--stop-grace=2s", "--metrics-bind-address=:4041"}) || len(manager(t, all).Env) > 0 || len(manager(t, all).Args) > 0 {
		t.Errorf("the sidecar's arguments are %q, and the program has %s", c.Args, text(manager(t, all)))
	}
	for _, role := range manifests.Pick[rbacv1.Role](t, all, "Role") {
		if strings.HasSuffix(role.Name, "-proof") {
			t.Error("somebody may read pods, which proves nothing")
		}
	}
}

func TestASidecarRunsTheCommandThatFollowsItsOwnFlags(t *testing.T) {
	set := image + ",sidecar.enabled=true,sidecar.form=command,sidecar.stopGrace=2s,command={sh,-c},args={work}"
	for how, want := range map[string][]string{
		"environment": {"--stop-grace=2s", "--metrics-bind-address=:4041", "--", "sh", "-c", "work"},
		"arguments":   {"--leader-elect=true", "--leader-elect-resource-name=my-operator", "--stop-grace=2s", "--metrics-bind-address=:4041", "--", "sh", "-c", "work"},
	} {
		all := render(t, chart, values(set, "election.passAs="+how)...)
		c := manager(t, all)
		if !slices.Equal(c.Command, []string{"zonelect-sidecar"}) || !slices.Equal(c.Args, want) {
			t.Errorf("%s: it runs %q %q, want %q", how, c.Command, c.Args, want)
		}
		if len(c.Ports) != 1 || c.LivenessProbe == nil {
			t.Errorf("%s: its ports are %s and its probe %s", how, text(c.Ports), text(c.LivenessProbe))
		}
		share := one[appsv1.Deployment](t, all, "Deployment").Spec.Template.Spec.ShareProcessNamespace
		if share == nil || *share {
			t.Error("the sidecar may not be the first process of its container")
		}
	}
}

func TestAnOlderKubernetesIsNotAskedForWhatItDoesNotKnow(t *testing.T) {
	sidecar := "sidecar.enabled=true,sidecar.image.repository=s,sidecar.image.tag=v1"
	d := one[appsv1.Deployment](t, render(t, chart, append(values(image), "--kube-version", "1.26.1")...), "Deployment")
	if c := d.Spec.Template.Spec.TopologySpreadConstraints; len(c) != 2 || len(c[0].MatchLabelKeys) > 0 {
		t.Errorf("the constraints are %s", text(c))
	}
	for _, set := range []string{sidecar, "flowControl.create=true"} {
		if _, err := helm(t, append([]string{"template", "op", chart, "--kube-version", "1.28.3"}, values(image, set)...)...); err == nil || !strings.Contains(err.Error(), "1.29 or later") {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// TestAChartMayDependOnIt: its own Deployment gets environment, account and spread from here.
func TestAChartMayDependOnIt(t *testing.T) {
	parent := copied(t, map[string]string{".": "testdata/parent", "charts/zonelect": chart})
	all := render(t, parent)
	d := one[appsv1.Deployment](t, all, "Deployment")
	spec := d.Spec.Template.Spec
	want := parsed(t, "--leader-elect", "--leader-elect-resource-name=billing", "--leader-elect-lease-duration=20s", "--leader-elect-service=billing-leader")
	if got := fromEnvironment(t, spec.Containers[0]); !reflect.DeepEqual(got, want) {
		t.Errorf("the environment makes\n%+v, want\n%+v", got, want)
	}
	if len(spec.TopologySpreadConstraints) != 2 || *spec.TerminationGracePeriodSeconds != 40 {
		t.Errorf("the pod is %s", text(spec))
	}
	account := one[corev1.ServiceAccount](t, all, "ServiceAccount")
	if spec.ServiceAccountName != account.Name || account.Name != "billing" {
		t.Errorf("the pods run as %s, and there is %s", spec.ServiceAccountName, account.Name)
	}
	bindingsAreOf(t, all, account.Name, account.Namespace)
	if s := one[corev1.Service](t, all, "Service"); s.Name != "billing-leader" || len(s.Spec.Selector) > 0 {
		t.Errorf("the Service is %s", text(s))
	}
}

// TestTwoReleasesShareNoObject: of one name in two namespaces, and of two names in one.
func TestTwoReleasesShareNoObject(t *testing.T) {
	seen := map[string]string{}
	for _, release := range [][2]string{{"a", "x"}, {"a", "y"}, {"b", "x"}} {
		for _, o := range renderAs(t, release[0], release[1], chart, values(image, "election.mode=auto,election.service="+release[0])...) {
			id := fmt.Sprint(o.GetKind(), " ", o.GetNamespace(), "/", o.GetName())
			if seen[id] != "" {
				t.Errorf("releases %s and %v both have %s", seen[id], release, id)
			}
			seen[id] = fmt.Sprint(release)
		}
	}
}
