// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command plots draws what command scale measured, as SVG.
//
// It is a module of its own, outside of the workspace: what it depends on must not reach the
// versions that the library is built with.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// results are the fields of command scale's results that are drawn.
type results struct {
	Idle []struct {
		Kind                                    string
		Locks, Candidates                       int
		Requests, ClientCPU, ServerCPU, EtcdCPU float64
		RSS                                     int64
		Connections, Goroutines                 int
	}
	Takeovers []struct {
		Kind              string
		Locks, Candidates int
		Way               string
		Most              float64
	}
}

func main() {
	from := flag.String("from", "../baseline.json", "results of command scale")
	into := flag.String("into", ".", "directory for the pictures")
	flag.Parse()
	if err := draw(*from, *into); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

// lines are points by kind, each the number of locks and a figure.
type lines map[string]plotter.XYs

func (l lines) add(kind string, locks int, y float64) {
	l[kind] = append(l[kind], plotter.XY{X: float64(locks), Y: y})
}

// picture is one picture to draw.
type picture struct {
	file, title, y string
	lines          lines
	log            bool // the axis of the figures too; zeros are left out
}

func draw(from, into string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var r results
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	for _, p := range pictures(r) {
		if err := p.save(filepath.Join(into, p.file)); err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
	}
	return nil
}

// three is the number of processes; more candidates are another measurement.
const three = 3

func pictures(r results) []picture {
	requests, clients, server, memory := lines{}, lines{}, lines{}, lines{}
	for _, i := range r.Idle {
		if i.Candidates > three {
			continue
		}
		requests.add(i.Kind, i.Locks, i.Requests)
		clients.add(i.Kind, i.Locks, i.ClientCPU)
		server.add(i.Kind, i.Locks, i.ServerCPU+i.EtcdCPU)
		memory.add(i.Kind, i.Locks, float64(i.RSS)/(1<<20))
	}
	all := []picture{
		{"scale-requests.svg", "Requests for Leases, three idle processes", "requests/s", requests, true},
		{"scale-clients.svg", "CPU of the three processes", "cores", clients, true},
		{"scale-servers.svg", "CPU of three API servers and three members of etcd", "cores", server, true},
		{"scale-memory.svg", "Resident memory of the largest process", "MiB", memory, false},
	}
	for _, way := range []struct{ name, file, title string }{
		{"SIGTERM", "scale-handover.svg", "SIGTERM of the leaders' process: 99 % of its locks are led again"},
		{"kill -9", "scale-killed.svg", "kill -9 of the leaders' process: 99 % of its locks are led again"},
		{"zone power loss", "scale-zone.svg", "The leaders' zone loses its power: 99 % of its locks are led again"},
	} {
		took := lines{}
		for _, t := range r.Takeovers {
			if t.Way == way.name && t.Candidates <= three && t.Most > 0 { // zero is never
				took.add(t.Kind, t.Locks, t.Most)
			}
		}
		all = append(all, picture{way.file, way.title, "seconds", took, false})
	}
	return all
}

func (p picture) save(file string) error {
	pic := plot.New()
	pic.Title.Text, pic.X.Label.Text, pic.Y.Label.Text = p.title, "locks for which each process campaigns", p.y
	pic.X.Scale, pic.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	pic.Legend.Top, pic.Legend.Left = true, true
	if p.log {
		pic.Y.Scale, pic.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	pic.Add(plotter.NewGrid())
	for n, kind := range []string{"own", "shared", "heartbeat", "client-go"} {
		points := slices.DeleteFunc(slices.Clone(p.lines[kind]), func(xy plotter.XY) bool { return p.log && xy.Y <= 0 })
		if len(points) == 0 {
			continue
		}
		slices.SortFunc(points, func(a, b plotter.XY) int { return int(a.X - b.X) })
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, line.Width = plotutil.Color(n), vg.Points(2)
		marks.Color, marks.Shape = plotutil.Color(n), plotutil.Shape(n)
		pic.Add(line, marks)
		pic.Legend.Add(kind, line, marks)
	}
	p.frame(pic)
	return pic.Save(16*vg.Centimeter, 10*vg.Centimeter, file)
}

// frame gives all pictures the same axis of locks, whole decades, and room for the legend.
func (p picture) frame(pic *plot.Plot) {
	const mostLocks = 1000
	pic.X.Min, pic.X.Max = 1, max(pic.X.Max, mostLocks)
	if !p.log {
		pic.Y.Min, pic.Y.Max = 0, pic.Y.Max*1.4
		return
	}
	pic.Y.Min = math.Pow(10, math.Floor(math.Log10(pic.Y.Min)))
	pic.Y.Max = math.Pow(10, math.Ceil(math.Log10(pic.Y.Max*4)))
}
