// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/zonelect/zonelect/internal/extension"
)

const variable = "LEADER_ELECT_HEARTBEAT"

func init() { extension.Variables = append(extension.Variables, variable) }

// AddFlag adds the flag --leader-elect-heartbeat to fs: whether the program is to use [NewGroup]
// instead of operator.NewGroup. The present value of on is the default.
func AddFlag(fs *pflag.FlagSet, on *bool) {
	fs.BoolVar(on, "leader-elect-heartbeat", *on, "Renew all locks of this process by one heartbeat. All candidates of a lock need this flag, and --leader-elect-exclusive.")
}

// FromEnvironment sets on as the variable LEADER_ELECT_HEARTBEAT says, if it is set. Call it before
// AddFlag: then the flag wins.
func FromEnvironment(on *bool) error {
	value, set := os.LookupEnv(variable)
	if !set {
		return nil
	}
	is, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("environment variable %s: %w", variable, err)
	}
	*on = is
	return nil
}
