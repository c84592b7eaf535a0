// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// below lists the weathers in which zonelect is known to be worse than client-go, or to lose
// terms or connections, although it should not. Random delays are not among them.
var below = []string{
	"15/10/2, answers late, constant, 3s",
	"15/10/2, answers late, constant, 4s",
	"15/10/2, answers late, steps, 4s",
	"15/10/2, requests arrive late, constant, 3s",
	"15/10/2, requests arrive late, constant, 4s",
	"15/10/2, requests arrive late, steps, 4s",
	"30/20/5, answers late, constant, 5s",
	"30/20/5, answers late, constant, 6s",
	"30/20/5, answers late, constant, 8s",
	"30/20/5, answers late, steps, 8s",
	"30/20/5, requests arrive late, constant, 4s",
	"30/20/5, requests arrive late, constant, 5s",
	"30/20/5, requests arrive late, constant, 6s",
	"30/20/5, requests arrive late, constant, 8s",
	"30/20/5, requests arrive late, steps, 8s",
}
