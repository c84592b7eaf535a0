// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/zonelect/zonelect/internal/plan"
)

func ExampleRequirements_Plan() {
	p, err := plan.Requirements{APIOutage: 30 * time.Second, Failover: 45 * time.Second, Stop: 5 * time.Second}.Plan()
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Timing.LeaseDuration, p.Timing.RenewDeadline, p.Timing.RenewInterval)
	fmt.Println("a failover takes", p.Bounds.DeadServer.Worst.Total(), "at most:", p.Bounds.DeadServer.Worst)

	_, err = plan.Requirements{APIOutage: time.Minute, Failover: 45 * time.Second}.Plan()
	fmt.Println(errors.Is(err, plan.ErrImpossible))
	// Output:
	// 41s 35.5s 2s
	// a failover takes 43.96s at most: LeaseDuration 41s + clock drift of 1 % 410ms + 7 x RoundTrip 50ms + rest of the silence until a follower asks 1s + 6 x lost dial 200ms
	// true
}
