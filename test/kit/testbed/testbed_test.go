// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// startBed starts a testbed and closes it with the test. It skips a heavy test
// that was not requested.
func startBed(t *testing.T, config Config) *Testbed {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real control plane: run without -short")
	}
	config.Progress = t.Output()
	bed, err := Start(t.Context(), config)
	must(t, err)
	t.Cleanup(func() { must(t, bed.Close()) })
	return bed
}

// client makes a client with a timeout for each request.
func client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	config.Timeout = 3 * time.Second
	made, err := kubernetes.NewForConfig(config)
	must(t, err)
	return made
}

// write creates a ConfigMap, unless it exists, and reads it.
func write(ctx context.Context, c kubernetes.Interface, name string) error {
	maps := c.CoreV1().ConfigMaps("default")
	_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = maps.Get(ctx, name, metav1.GetOptions{})
	return err
}

// eventually waits until ask returns nil.
func eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, poll(ctx, what, ask))
}

// backendsAre waits until a zone's virtual IP leads to these zones.
func backendsAre(t *testing.T, bed *Testbed, zone string, want ...string) {
	t.Helper()
	eventually(t, "wait for backends", func(context.Context) error {
		if got := bed.Network.Backends(zone); !slices.Equal(got, want) {
			return fmt.Errorf("the virtual IP of %s leads to %v, want %v", zone, got, want)
		}
		return nil
	})
}

func TestZoneDiesAndComesBack(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, kind NetworkKind) {
		bed := startBed(t, Config{Network: kind})
		victim := startBeat(t, bed, "za")
		must(t, bed.CutPower(t.Context(), "za"))
		select {
		case <-victim.Done():
		default:
			t.Error("a program of the zone has outlived its power")
		}
		if got := bed.Network.Backends("zb"); !slices.Equal(got, []string{"za", "zb", "zc"}) {
			t.Errorf("right after the cut the virtual IP leads to %v, want the dead backend too", got)
		}
		for _, zone := range []string{"zb", "zc"} {
			c := client(t, bed.Cluster.RESTConfig(zone))
			eventually(t, "write in zone "+zone, func(ctx context.Context) error { return write(ctx, c, "after-"+zone) })
		}
		if err := write(t.Context(), client(t, bed.Cluster.RESTConfig("za")), "never"); err == nil {
			t.Error("the dead zone's apiserver took a write")
		}
		if _, err := bed.StartProcess("za", ProcessSpec{Name: "x", Path: os.Args[0]}); err == nil {
			t.Error("a program was started in a zone without power")
		}
		collects(t, bed, "zb")
		backendsAre(t, bed, "zb", "zb", "zc")
		must(t, bed.Restore(t.Context(), "za"))
		backendsAre(t, bed, "zb", "za", "zb", "zc")
		c := client(t, bed.Cluster.RESTConfig("za"))
		eventually(t, "write in zone za", func(ctx context.Context) error { return write(ctx, c, "again") })
	})
}

func TestCutOffZone(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, kind NetworkKind) {
		bed := startBed(t, Config{Network: kind, WithoutControllers: true})
		must(t, bed.Network.PartitionFromAll("zc"))
		cut := client(t, bed.Cluster.RESTConfig("zc"))
		eventually(t, "wait for zone zc to refuse writes", func(ctx context.Context) error {
			if write(ctx, cut, "cut") == nil {
				return errors.New("it still takes them")
			}
			return nil
		})
		c := client(t, bed.Cluster.RESTConfig("zb"))
		eventually(t, "write on the other side", func(ctx context.Context) error { return write(ctx, c, "whole") })
		must(t, bed.Parts.Kill(t.Context(), APIServer, "za"))
		backendsAre(t, bed, "za", "zb")
		backendsAre(t, bed, "zc", "za", "zb", "zc")
		must(t, bed.Network.Heal())
		backendsAre(t, bed, "za", "zb", "zc")
		must(t, bed.Parts.Start(t.Context(), APIServer, "za"))
		backendsAre(t, bed, "za", "za", "zb", "zc")
		eventually(t, "write in zone zc", func(ctx context.Context) error { return write(ctx, cut, "healed") })
	})
}

func TestProgramsObeyAndCloseLeavesNothing(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, kind NetworkKind) {
		bed := startBed(t, Config{Zones: []string{"za", "zb"}, Network: kind})
		obeys(t, startBeat(t, bed, "zb"))
		program := startBeat(t, bed, "za")
		must(t, bed.Close())
		must(t, bed.Close()) // again
		<-program.Done()
		if _, err := os.Stat(bed.Dir()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the state directory %s is still there (%v)", bed.Dir(), err)
		}
		if n, ok := bed.fabric.(interface{ traces() string }); ok && n.traces() != "" {
			t.Errorf("left behind: %s", n.traces())
		}
		if _, err := bed.StartProcess("za", ProcessSpec{Name: "late", Path: os.Args[0]}); err == nil {
			t.Error("a program was started in a closed testbed")
		}
		if left := children(t); len(left) > 0 {
			t.Errorf("processes left behind: %v", left)
		}
	})
}

// children lists this process's children, if the system can tell.
func children(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	must(t, err)
	var all []string
	for _, file := range files {
		// A thread may have ended in the meantime.
		if data, err := os.ReadFile(file); err == nil && len(data) > 0 {
			all = append(all, string(data))
		}
	}
	return all
}
