// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// longNames makes locks of pods with names as Deployments give them: one is held, and of two
// others the leaders are gone.
func (w *world) longNames() {
	for _, z := range []string{"a", "b", "c"} {
		w.announce("metal3-operator", "metal3-operator-7f9c6d8b5-x2k"+z, "zone-"+z, "", inModeLease)
	}
	const holder = "metal3-operator-7f9c6d8b5-x2ka_1"
	w.putLease(newLease("metal3-operator", holder, "zone-a", after("metal3-operator-7f9c6d8b5-x2kb_1", "expired", 15_020*time.Millisecond)))
	w.putLease(newLease("left", holder, "zone-a", releasedBy(time.Minute)))
	w.putLease(newLease("silent", holder, "zone-a", renewed(time.Hour)))
}

// TestATerminalGetsWhatFitsIntoIt: a table that is too wide for it would be folded. Nothing
// else gets a list, or a color.
func TestATerminalGetsWhatFitsIntoIt(t *testing.T) {
	xterm := map[string]string{"TERM": "xterm"}
	for name, tc := range map[string]struct {
		width int
		vars  map[string]string
		args  string
	}{
		"pipe":          {0, xterm, "status"},
		"80":            {80, xterm, "status"},
		"160":           {160, xterm, "status"},
		"240":           {240, xterm, "status"},
		"80-everywhere": {80, xterm, "status -A"},
		"80-one":        {80, xterm, "status metal3-operator"},
		"80-wide":       {80, xterm, "status -o wide"},
		"80-json":       {80, xterm, "status -o jsonpath={.items[*].status.state}"},
		"no-color":      {240, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, "status"},
		"dumb":          {240, map[string]string{"TERM": "dumb"}, "status"},
		"never":         {240, xterm, "status --color=never"},
		"always":        {0, map[string]string{"NO_COLOR": "1"}, "status --color=always"},
		"sometimes":     {0, nil, "status --color=sometimes"},
	} {
		t.Run(name, func(t *testing.T) {
			inABubble(t, func(t *testing.T, w *world) {
				w.width, w.vars = tc.width, tc.vars
				w.longNames()
				r := w.run(strings.Fields(tc.args)...)
				r.out = strings.ReplaceAll(r.out, "\x1b", "ESC")
				golden(t, "screen-"+name, r)
			})
		})
	}
}

// TestATerminalShowsThePresentBelowWhatHasChanged. What is above the present stays.
func TestATerminalShowsThePresentBelowWhatHasChanged(t *testing.T) {
	for _, width := range []int{80, 160} {
		inABubble(t, func(t *testing.T, w *world) {
			w.width, w.vars = width, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}
			w.threeCandidates()
			w.putLease(led())
			out, errOut, stop := w.watches("status", "op", "-w")
			var seen strings.Builder
			look := func(what string) {
				synctest.Wait()
				fmt.Fprintf(&seen, "=== %s\n%s", what, screenOf(t, out.String(), width))
			}
			for range 5 {
				time.Sleep(2 * time.Second)
				w.renew("op")
			}
			look("the leader renews")
			time.Sleep(4 * time.Second)
			look("it fell silent")
			time.Sleep(12 * time.Second)
			look("its lease has run out")
			w.putLease(newLease("op", "op-c_1", "zc", func(l *coordinationv1.Lease) {
				l.Spec.AcquireTime.Time = time.Now()
				l.Spec.RenewTime.Time = time.Now()
				after("op-a_1", "expired", 16*time.Second)(l)
			}))
			time.Sleep(time.Second)
			look("another leads")
			w.deaf.Store(true)
			time.Sleep(30 * time.Second)
			look("the API server is away")
			w.deaf.Store(false)
			time.Sleep(30 * time.Second)
			w.renew("op")
			look("it is back")
			w.server.Delete(leasesPath + "op")
			time.Sleep(time.Second)
			look("the Lease was deleted")
			if code := stop(); code != exitOK || errOut.String() != "" {
				t.Errorf("exit code %d, %s", code, errOut)
			}
			golden(t, fmt.Sprintf("live-%d", width), result{0, seen.String(), ""})
		})
	}
}

// TestManyLocksFitIntoAScreen: what was drawn before can only be replaced where it can be seen.
func TestManyLocksFitIntoAScreen(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world) {
		w.width, w.vars = 160, map[string]string{"TERM": "xterm"}
		for i := range 100 {
			w.putLease(newLease(fmt.Sprintf("op-%02d", i), "op-a_1", "za"))
		}
		out, _, stop := w.watches("status", "-w")
		for range 20 {
			time.Sleep(2 * time.Second)
			w.renew("op-99")
		}
		synctest.Wait()
		stop()
		shown := screenOf(t, out.String(), 160)
		if lines := strings.Count(shown, "\n"); lines > 39+100 || strings.Count(shown, "NAME") != 1 || !strings.Contains(shown, " lines more)") {
			t.Errorf("it shows %d lines:\n%s", lines, shown)
		}
	})
}

// TestASmallTerminalCutsWarningsLast: what is wrong, and of when that is, can be seen beside the
// locks.
func TestASmallTerminalCutsWarningsLast(t *testing.T) {
	for height := 1; height < 40; height++ {
		var drawn bytes.Buffer
		f := frame{out: &drawn}
		var lines, remarks []line
		for i := range 30 {
			lines = append(lines, line{text: fmt.Sprintf("lock %d", i)})
		}
		for i := range 8 {
			remarks = append(remarks, line{text: fmt.Sprintf("warning %d", i)})
		}
		if err := f.draw(nil, lines, remarks, line{text: "footer"}, 80, height); err != nil {
			t.Fatal(err)
		}
		got := drawn.String()
		switch n := strings.Count(got, "\n"); {
		case n > max(1, height-1), n < min(max(1, height-1), 39):
			t.Errorf("height %d: it has %d lines:\n%s", height, n, got)
		case !strings.HasSuffix(got, "footer\n"):
			t.Errorf("height %d: it has no footer:\n%s", height, got)
		case height >= 6 && (!strings.Contains(got, "warning 0") || !strings.Contains(got, "lock 0")):
			t.Errorf("height %d: the first warning or lock is missing:\n%s", height, got)
		case height >= 20 && strings.Count(got, "warning") != 8:
			t.Errorf("height %d: a warning is missing:\n%s", height, got)
		}
	}
}

var control = regexp.MustCompile(`\x1b\[(\d*)([A-Za-z])|\r|\n|[^\x1b\r\n]+`)

// screenOf is what a terminal shows of an output, with what has scrolled away.
func screenOf(t *testing.T, out string, width int) string {
	t.Helper()
	lines, y := []string{""}, 0
	for _, m := range control.FindAllStringSubmatch(out, -1) {
		switch {
		case m[0] == "\n":
			if y++; y == len(lines) {
				lines = append(lines, "")
			}
		case m[0] == "\r":
		case m[2] == "A":
			n, _ := strconv.Atoi(m[1])
			if y -= n; y < 0 || n > 40 {
				t.Fatalf("the cursor leaves the screen: up by %d to %d", n, y)
			}
		case m[2] == "J":
			lines = append(lines[:y:y], "")
		case m[2] == "m":
		case m[2] != "":
			t.Fatalf("it prints %q", m[0])
		default:
			if lines[y] += m[0]; len([]rune(lines[y])) > width {
				t.Errorf("wider than the screen: %s", lines[y])
			}
		}
	}
	return strings.Join(lines, "\n")
}
