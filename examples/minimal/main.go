// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Command minimal is as little as an operator needs: one call, and work that stops
// when its context ends.
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/operator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := operator.Run(ctx, "minimal", work, operator.Options{}); err != nil {
		log.Fatal(err)
	}
}

// work runs once for each term that this process wins. The next leader starts only
// after it has returned, so it returns soon after ctx ends.
func work(ctx context.Context, term election.Term) error {
	fmt.Println("leading with token", term.Token)
	<-ctx.Done()
	fmt.Println("stopped:", context.Cause(ctx))
	return nil
}
