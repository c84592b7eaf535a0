// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
)

// impatience is how long a request that should not succeed may take.
const impatience = 700 * time.Millisecond

// TestFaultsBiteAndEnd injects one fault after the other on one testbed.
func TestFaultsBiteAndEnd(t *testing.T) {
	bed := startBed(t, Config{WithoutControllers: true, WithoutNodes: true, SyncToDisk: true})
	for _, fault := range []struct {
		name string
		test func(*testing.T, *Testbed)
	}{
		{"one apiserver is paused", pausesOneAPIServer},
		{"etcd's leader is paused", pausesLeader},
		{"etcd's leader is killed", killsLeader},
		{"connections go silent", silencesConnections},
		{"requests are rejected", rejectsRequests},
		{"the network is slow and lossy", setsWeather},
		{"a disk is slow", slowsDisk},
		{"a wall clock is stepped", stepsClock},
	} {
		t.Run(fault.name, func(t *testing.T) {
			fault.test(t, bed)
			for _, zone := range bed.Zones() {
				writes(t, bed, zone)
			}
		})
	}
}

// writes waits until a zone's apiserver accepts writes.
func writes(t *testing.T, bed *Testbed, zone string) {
	t.Helper()
	c := impatient(t, bed, zone)
	eventually(t, "write in zone "+zone, func(ctx context.Context) error { return write(ctx, c, "fault") })
}

// refuses waits until a zone's apiserver accepts no writes.
func refuses(t *testing.T, bed *Testbed, zone string) {
	t.Helper()
	c := impatient(t, bed, zone)
	eventually(t, "wait for zone "+zone+" to take no writes", func(ctx context.Context) error {
		if write(ctx, c, "fault") == nil {
			return errors.New("it takes them")
		}
		return nil
	})
}

// impatient is a client with short timeouts.
func impatient(t *testing.T, bed *Testbed, zone string) kubernetes.Interface {
	t.Helper()
	config := bed.Cluster.RESTConfig(zone)
	config.Timeout = impatience
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// others are all zones but one.
func others(bed *Testbed, zone string) []string {
	var rest []string
	for _, other := range bed.Zones() {
		if other != zone {
			rest = append(rest, other)
		}
	}
	return rest
}

// leaderOf finds etcd's leader.
func leaderOf(t *testing.T, bed *Testbed) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	leader, err := bed.Parts.EtcdLeader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return leader
}

func pausesOneAPIServer(t *testing.T, bed *Testbed) {
	ok(t, bed.Parts.Pause(APIServer, "za"))
	refuses(t, bed, "za")
	for _, zone := range others(bed, "za") {
		writes(t, bed, zone)
	}
	ok(t, bed.Parts.Resume(APIServer, "za"))
}

func pausesLeader(t *testing.T, bed *Testbed) {
	leader := leaderOf(t, bed)
	ok(t, bed.Parts.Pause(Etcd, leader))
	losesLeader(t, bed, leader)
	ok(t, bed.Parts.Resume(Etcd, leader))
}

func killsLeader(t *testing.T, bed *Testbed) {
	leader := leaderOf(t, bed)
	ok(t, bed.Parts.Kill(t.Context(), Etcd, leader))
	losesLeader(t, bed, leader)
	ok(t, bed.Parts.Start(t.Context(), Etcd, leader))
	runs := bed.zones[leader].etcd
	ok(t, bed.Parts.Start(t.Context(), Etcd, leader))
	if bed.zones[leader].etcd != runs {
		t.Error("a member that runs was started again")
	}
}

// losesLeader checks that a zone is without etcd and that the others are not.
func losesLeader(t *testing.T, bed *Testbed, leader string) {
	t.Helper()
	refuses(t, bed, leader)
	for _, zone := range others(bed, leader) {
		writes(t, bed, zone)
	}
	if next := leaderOf(t, bed); next == leader {
		t.Errorf("the member of zone %s leads still", leader)
	}
}

// ok wants no error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func silencesConnections(t *testing.T, bed *Testbed) {
	if bed.Network.Kind() != Namespaces {
		if bed.Network.SilenceConnections("za", BothWays) == nil {
			t.Error("relays were asked to silence connections, and say that they do")
		}
		return
	}
	asker := startAsker(t, bed, "za", "")
	asker.says(http.StatusNotFound)
	for _, what := range []Silence{BothWays, Answers} {
		ok(t, bed.Network.SilenceConnections("za", what))
		asker.expect("silent")
		asker.says(http.StatusNotFound)
		lost, err := bed.Network.Silenced("za")
		if err != nil || lost == 0 {
			t.Errorf("%d packets were lost (%v)", lost, err)
		}
	}
}

func rejectsRequests(t *testing.T, bed *Testbed) {
	asker := startAsker(t, bed, "za", "lesser")
	asker.says(http.StatusForbidden)
	ok(t, bed.Cluster.Reject(t.Context(), "lesser"))
	asker.expect("429 Too Many Requests, retry after 1")
	ok(t, bed.Cluster.Reject(t.Context(), "lesser", "update", "patch"))
	asker.says(http.StatusForbidden) // for it gets
	ok(t, bed.Cluster.Reject(t.Context(), "lesser", "get"))
	asker.says(http.StatusTooManyRequests)
	ok(t, bed.Cluster.Admit(t.Context(), "lesser"))
	asker.says(http.StatusForbidden)
}

func setsWeather(t *testing.T, bed *Testbed) {
	if bed.Network.Kind() != Namespaces {
		if bed.Network.SetWeather("za", Weather{Loss: 1}) == nil {
			t.Error("relays were asked for weather, and say that they have it")
		}
		return
	}
	if bed.Network.SetWeather("za", Weather{Loss: 2}) == nil {
		t.Error("more than everything shall be lost")
	}
	ok(t, bed.Network.SetWeather("za", Weather{Loss: 1}))
	refuses(t, bed, "za")
	ok(t, bed.Network.SetWeather("za", Weather{Delay: 20 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.02}))
	writes(t, bed, "za")
	ok(t, bed.Network.SetWeather("za", Weather{}))
	if late, lost := bed.Network.Weathered(); late == 0 || lost == 0 {
		t.Errorf("%d packets were late and %d lost", late, lost)
	}
}

// writesPerSecond is how often a slow disk takes a write.
const writesPerSecond = 4

func slowsDisk(t *testing.T, bed *Testbed) {
	if err := bed.Parts.SlowDisk("za", writesPerSecond); err != nil {
		t.Skip(err)
	}
	const long = time.Second / writesPerSecond / 2 // a sync is a write at least
	slow := func(want bool) {
		t.Helper()
		c := impatient(t, bed, "zb")
		eventually(t, "wait for syncs that are slow: "+strconv.FormatBool(want), func(ctx context.Context) error {
			sum, count := syncs(t, bed, "za")
			for range 3 {
				if err := write(ctx, c, "fault-"+strconv.FormatInt(time.Now().UnixNano(), 36)); err != nil {
					return err
				}
			}
			for {
				after, n := syncs(t, bed, "za")
				if n < count+2 {
					time.Sleep(pollInterval)
					continue
				}
				if took := (after - sum) / (n - count); (took > long.Seconds()) != want {
					return fmt.Errorf("a sync takes %.3f s", took)
				}
				return nil
			}
		})
	}
	slow(true)
	ok(t, bed.Parts.SlowDisk("za", 0))
	slow(false)
	ok(t, bed.Parts.SlowDisk("za", writesPerSecond))
	ok(t, bed.Parts.Kill(t.Context(), Etcd, "za"))
	ok(t, bed.Parts.Start(t.Context(), Etcd, "za"))
	if left, _ := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/blkio/zonelect-testbed-%d-*", os.Getpid())); len(left) > 0 {
		t.Errorf("cgroups left behind: %v", left)
	}
}

// syncs returns how long a zone's etcd has waited for its disk, in seconds, and
// how often.
func syncs(t *testing.T, bed *Testbed, zone string) (sum, count float64) {
	t.Helper()
	response, err := http.Get("http://" + bed.fabric.site(zone).etcd + "/metrics")
	ok(t, err)
	defer response.Body.Close()
	for in := bufio.NewScanner(response.Body); in.Scan(); {
		for name, value := range map[string]*float64{"sum": &sum, "count": &count} {
			if text, found := strings.CutPrefix(in.Text(), "etcd_disk_wal_fsync_duration_seconds_"+name+" "); found {
				*value, err = strconv.ParseFloat(text, 64)
				ok(t, err)
			}
		}
	}
	return sum, count
}

func stepsClock(t *testing.T, bed *Testbed) {
	if runtime.GOOS == "windows" {
		t.Skip("package time cannot share a file on this system")
	}
	path, err := BuildSteppable(t.Context(), "./test/kit/testbed/testdata/clock")
	ok(t, err)
	program, err := bed.StartProcess("za", ProcessSpec{Name: "clock", Path: path})
	ok(t, err)
	clock := &helper{t: t, task: program.task, output: program.output}
	clock.expect("0s")
	ok(t, program.StepClock(time.Hour))
	clock.expect("1h0m0s")
	ok(t, program.StepClock(-2*time.Hour))
	clock.expect("-1h0m0s")
	ok(t, program.StepClock(time.Hour))
	clock.expect("0s")
	ok(t, program.Kill())
	if err := startBeat(t, bed, "za").StepClock(time.Hour); err == nil {
		t.Error("the clock of a program that was built as always was stepped")
	}
}

func TestAnotherPackageTimeIsRefused(t *testing.T) {
	const source = "func Now() Time {\n\tsec, nsec, mono := clocks()\n\treturn Time{}\n}\n"
	edited, err := steppedClock.Apply([]byte(source))
	if want := strings.Replace(source, "clocks()\n", "clocks()\n\tsec += wallClockStep()\n", 1); err != nil || string(edited) != want {
		t.Errorf("package time became %q (%v), want %q", edited, err, want)
	}
	for _, unknown := range []string{"", "func Now() Time {\n\treturn Time{}\n}\n", source + source} {
		if _, err := steppedClock.Apply([]byte(unknown)); err == nil {
			t.Errorf("%q was edited", unknown)
		}
	}
}

// startAsker runs a program in a zone that queries the API until the test ends.
func startAsker(t *testing.T, bed *Testbed, zone, user string) *helper {
	t.Helper()
	asker, err := bed.StartProcess(zone, ProcessSpec{
		Name: "asker", Path: os.Args[0], Args: []string{bed.Cluster.Kubeconfig(zone), user}, Env: []string{roleVariable + "=ask"},
	})
	ok(t, err)
	t.Cleanup(func() { ok(t, asker.Kill()) })
	return &helper{t: t, task: asker.task, output: asker.output}
}

// says waits for the helper's next line, which must begin with this status.
func (h *helper) says(status int) {
	h.t.Helper()
	if got := h.line(); !strings.HasPrefix(got, strconv.Itoa(status)) {
		h.t.Fatalf("the helper says %q, want status %d", got, status)
	}
}
