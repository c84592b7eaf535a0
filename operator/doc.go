// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operator is what an operator imports to take part in an election: it
// finds out who this process is ([WhoAmI]), where the API server is
// ([RESTConfig]), and puts a lock together with a way to the API that notices
// within seconds when a zone has died ([LeaseLock]).
package operator
