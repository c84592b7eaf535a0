// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"path/filepath"
	"strings"
)

// traces lists what is left on the host under the network's names.
func (n *namespaces) traces() string {
	left, _ := filepath.Glob(filepath.Join(namespaceDir, n.slot.prefix()+"*"))
	links, _ := filepath.Glob("/sys/class/net/" + n.slot.prefix() + "*")
	left = append(left, links...)
	tables, err := output(context.Background(), "", "nft", "list", "tables")
	if err != nil || strings.Contains(tables, n.slot.table()+"\n") {
		left = append(left, n.slot.table())
	}
	return strings.Join(left, " ")
}
