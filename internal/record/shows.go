// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"
	"time"

	"github.com/zonelect/zonelect/locks"
)

// ErrNotShown is wrapped by every error of [Shows].
var ErrNotShown = errors.New("the answer does not show this write")

// Shows returns nil if the answer to a write shows the record that was written, at a version newer
// than the one that it replaced. Another answer acknowledges nothing and refuses nothing: a cache
// before the API server answers an update that it has not sent on, and an API server answers an
// update in which admission undid every change with the version that was there before.
//
// Times count to the second, because admission may cut fractions. Admission may also change labels
// and annotations, and make the duration longer. It may not make it shorter, because others would
// not wait for as long as the holder trusts the write.
func Shows(answer locks.Snapshot, replaced locks.Version, wrote locks.Record) error {
	got := answer.Record
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrNotShown}, args...)...)
	}
	switch {
	case answer.Version.Number <= replaced.Number:
		return wrong("version %d is not newer than version %d, which was to be replaced", answer.Version.Number, replaced.Number)
	case got.Holder != wrote.Holder:
		return wrong("the holder is %.253q, not %.253q", got.Holder, wrote.Holder)
	case !sameSecond(got.RenewTime, wrote.RenewTime) || !sameSecond(got.AcquireTime, wrote.AcquireTime):
		return wrong("acquired at %v and renewed at %v, not at %v and %v", got.AcquireTime, got.RenewTime, wrote.AcquireTime, wrote.RenewTime)
	case got.Transitions != wrote.Transitions:
		return wrong("it has %d transitions, not %d", got.Transitions, wrote.Transitions)
	case got.LeaseDuration < wrote.LeaseDuration:
		return wrong("others wait for %v, not for %v", got.LeaseDuration, wrote.LeaseDuration)
	}
	return nil
}

func sameSecond(a, b time.Time) bool { return a.Unix() == b.Unix() }
