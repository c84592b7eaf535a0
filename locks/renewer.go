// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"time"
)

// Renewer is a Lock's way to renew a term without a write of the record, such as by a heartbeat
// that keeps many locks of one process. An elector uses it for each renewal that would change
// nothing but the record's RenewTime. Its methods are safe for concurrent use.
//
// It is experimental.
type Renewer interface {
	// Renew waits until something has renewed the record that this process holds at version
	// held, which may take a RenewInterval. It returns the snapshot as others see it, with Kept
	// set, and a reading of time.Now from just before that something left this process. Trust
	// counts from sent, which may be before the call.
	//
	// It fails with ErrNotKept at once if only a write can renew the record, and with
	// ErrConflict if the record is no longer at version held. After any other error the record
	// may have been renewed.
	Renew(ctx context.Context, held Version) (sent time.Time, s Snapshot, err error)
}

// ErrNotKept is returned by Renew when nothing but a write renews the record now.
var ErrNotKept = errors.New("nothing but a write renews the record")
