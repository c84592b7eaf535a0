// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package release releases the newest commit in a clone, and uses the release as a newcomer does:
// with nothing but Go, an empty module cache and what the README says. Go fetches the modules from
// the tags itself, so their zips are those that a module proxy would serve.
//
//	make release-check
package release
