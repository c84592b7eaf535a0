// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/test/kit/slow"
	"github.com/zonelect/zonelect/test/kit/testbed"
)

var timings = []election.Timing{
	{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RenewInterval: 2 * time.Second},
	{LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RenewInterval: 5 * time.Second},
}

// latency shows how elections work on a control plane that is slow: two candidates of zonelect,
// as README's program, and two of each of client-go's electors, in many kinds of weather. Proxies
// delay requests and answers, webhooks delay writes, and etcd stands still. All candidates in one
// place run side by side. It prints the share of time with a leader, from the start of the
// candidates.
func latency(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("latency", flag.ContinueOnError)
	span := f.Duration("for", 4*time.Minute, "how long to measure in each place")
	match := f.String("run", "", "measure only the weathers that match, such as 'writes land late, (constant|steps), 4s'")
	rounds := f.Int("handovers", 0, "measure this many handovers among 3 and 10 candidates that know nobody, in place of weathers")
	if err := f.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*match)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	klog.SetLogger(logr.Discard()) // client-go's elector logs each request that fails
	b, err := testbed.Start(ctx, testbed.Config{Zones: []string{"za"}, Network: testbed.Links, Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer b.Close()
	cfg := b.Cluster.RESTConfig("za")
	cfg.Dial, cfg.QPS = (&net.Dialer{}).DialContext, -1
	s := &site{Testbed: b, config: cfg, hooks: slow.StartHooks(), span: *span}
	defer s.hooks.Close()
	if *rounds > 0 {
		return s.handovers(ctx, *rounds)
	}
	var rows []row
	for _, batch := range batches(wanted) {
		fmt.Fprintf(os.Stderr, "%d weathers, such as: %v\n", len(batch), batch[0])
		measured, err := s.measure(ctx, batch)
		if err != nil {
			return err
		}
		rows = append(rows, measured...)
	}
	print(rows)
	return nil
}

// batches are the weathers that are measured side by side: those of one place, but each stall
// of etcd alone.
func batches(wanted *regexp.Regexp) (list [][]weather) {
	for _, p := range places {
		var batch []weather
		for _, w := range all() {
			switch {
			case w.place != p || !wanted.MatchString(w.String()):
			case p != storage:
				batch = append(batch, w)
			case w.shape == stalls && w.delay >= time.Second: // etcd can do nothing else at will
				list = append(list, []weather{w})
			}
		}
		if len(batch) > 0 {
			list = append(list, batch)
		}
	}
	return list
}

// site is a control plane for trials.
type site struct {
	*testbed.Testbed
	config *rest.Config
	hooks  *slow.Hooks
	span   time.Duration
	trials int
}

// measure runs all electors in these weathers side by side.
func (s *site) measure(ctx context.Context, batch []weather) (rows []row, err error) {
	client, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return nil, fmt.Errorf("preparing a client: %w", err)
	}
	namespaces := make([]string, len(batch))
	for i, w := range batch {
		s.trials++
		namespaces[i] = "trial-" + strconv.Itoa(s.trials)
		if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces[i]}}, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("making a namespace: %w", err)
		}
		d := w.from(time.Now())
		if err := s.hooks.Add(ctx, client, namespaces[i], d.admission != nil, d.landing != nil, w.delay); err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex
	var wait sync.WaitGroup
	var errs []error
	type key struct {
		timing, weather int
		kind            string
	}
	found := map[key]row{}
	for i, w := range batch {
		d := w.from(time.Now())
		s.hooks.Begin(namespaces[i], d.admission, d.landing)
		for k, timing := range timings {
			for n, kind := range kinds {
				wait.Go(func() {
					r, err := tryOut(by[kind], s.config, w, timing, namespaces[i], fmt.Sprintf("lock-%d-%d", k, n), s.span)
					r.Kind = kind
					mu.Lock()
					defer mu.Unlock()
					found[key{k, i, kind}] = r
					errs = append(errs, err)
				})
			}
		}
	}
	if batch[0].place == storage {
		errs = append(errs, s.stall(ctx, batch[0]))
	}
	wait.Wait()
	for k := range timings {
		for i := range batch {
			for _, kind := range kinds {
				rows = append(rows, found[key{k, i, kind}])
			}
		}
	}
	return rows, errors.Join(errs...)
}

// stall has etcd stand still as a weather says, for the span.
func (s *site) stall(ctx context.Context, w weather) error {
	for end := time.Now().Add(s.span); time.Until(end) > stallEvery; {
		time.Sleep(stallEvery - w.delay)
		if err := s.Parts.Pause(testbed.Etcd); err != nil {
			return fmt.Errorf("stopping etcd: %w", err)
		}
		time.Sleep(w.delay)
		if err := s.Parts.Resume(testbed.Etcd); err != nil {
			return fmt.Errorf("resuming etcd: %w", err)
		}
	}
	return ctx.Err()
}

// print prints the table, and says where zonelect is worse than client-go.
func print(rows []row) {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIMING\tWEATHER\tELECTOR\tWITH A LEADER\tFROM THE FIRST TERM\tFIRST TERM\tTERMS LOST\tTWO LEADERS\tCONNECTIONS/MIN\tREQUESTS/MIN")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%v\t%s\t%.1f %%\t%.1f %%\t%.1f s\t%d\t%v\t%.1f\t%.1f\n", seconds3(r.Timing), r.weather, r.Kind,
			100*r.Share, 100*r.Since, r.First.Seconds(), r.Losses, r.Overlap.Round(time.Millisecond), r.Connections, r.Requests)
	}
	_ = t.Flush() // to the standard output
	fmt.Println()
	for i := 0; i < len(rows); i += len(kinds) {
		ours := rows[i]
		name := fmt.Sprintf("%s, %v", seconds3(ours.Timing), ours.weather)
		if ours.Overlap > 0 {
			fmt.Printf("TWO LEADERS: %s: for %v\n", name, ours.Overlap)
		}
		switch worse := strings.Join(ours.worse(rows[i+1:i+len(kinds)]), "; "); {
		case worse == "":
		case ours.promised():
			fmt.Printf("WORSE: %s: %s with client-go\n", name, worse)
		default:
			fmt.Printf("not promised: %s: %s with client-go\n", name, worse)
		}
	}
}
