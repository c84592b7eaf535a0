// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command several takes part in one election for each of its shards, so that
// the replicas share the work. The elections do not know each other.
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	all, ctx := errgroup.WithContext(ctx) // if one fails, the others end in good order
	for _, shard := range []string{"shard-a", "shard-b", "shard-c"} {
		all.Go(func() error {
			return operator.Run(ctx, shard, func(ctx context.Context, term election.Term) error {
				fmt.Println("leading", shard, "with token", term.Token)
				<-ctx.Done() // the shard's work goes here
				fmt.Println("stopped", shard+":", context.Cause(ctx))
				return nil
			}, operator.Options{})
		})
	}
	if err := all.Wait(); err != nil {
		log.Fatal(err)
	}
}
