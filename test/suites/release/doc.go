// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release releases the newest commit in a clone, and uses the release as a newcomer does:
// with nothing but Go, an empty module cache and what the README says. A directory stands in for
// the module proxy: Go itself fills it from the tags.
//
//	make packaging
package release
