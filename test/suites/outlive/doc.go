// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outlive takes the API away from operators of controller-runtime on a real control plane, and
// measures what that costs them, in each way in which they can be elected.
package outlive
