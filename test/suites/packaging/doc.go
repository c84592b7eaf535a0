// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package packaging tests what users get.
//
//   - It renders config, under other names too, and adds it to a project of kubebuilder. Package e2e
//     applies it, and holds its rights against what the program asks for.
//   - It releases the newest commit in a clone, and uses the release as a newcomer does: with nothing
//     but Go, an empty module cache and what the README says. A directory stands in for the module
//     proxy: Go itself fills it from the tags.
//   - It runs the commands of all documents on a control plane, with Kubernetes' own kubectl, or checks
//     their flags where a run would change too much. A command of which it does not know how fails.
//
// make packaging runs it.
package packaging
