// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/zonelect/zonelect/internal/record"
)

// FuzzRead reads any annotations. A value that client-go's type cannot read is not a
// record here either, nor is one with a key that client-go does not write, and a record has the same holder in both. A record that was read
// must read the same after it is written, if the annotations can hold it. The seeds hold
// the record and, in further lines, the renew and the acquire time.
func FuzzRead(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, seed := range seeds {
		b, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		lines := append(strings.Split(string(b), "\n"), "", "")
		f.Add(lines[0], lines[1], lines[2])
	}
	f.Fuzz(func(t *testing.T, value, renewed, acquired string) {
		object := annotated(AnnotationRecord, value, AnnotationRenewed, renewed, AnnotationAcquired, acquired)
		got, err := read(object)
		var theirs resourcelock.LeaderElectionRecord
		refused := json.Unmarshal([]byte(value), &theirs)
		if err != nil {
			if refused == nil && !strings.Contains(err.Error(), "client-go does not write") {
				t.Fatalf("client-go reads %+v, this: %v", theirs, err)
			}
			return
		}
		if got.LeaseDuration < 0 || got.Transitions < 0 {
			t.Fatalf("negative: %+v", got)
		}
		if refused == nil && (got.Holder != record.Identity(theirs.HolderIdentity) || got.RenewTime.Unix() != theirs.RenewTime.Unix()) {
			t.Fatalf("client-go reads %+v\nthis %+v", theirs, got)
		}
		if refused == nil && got.LeaseDuration.Seconds() < float64(min(theirs.LeaseDurationSeconds, math.MaxInt32)) {
			t.Fatalf("a lease of %ds is read as one of %v", theirs.LeaseDurationSeconds, got.LeaseDuration)
		}
		if record.Check(got) != nil || max(got.RenewTime.UTC().Year(), got.AcquireTime.UTC().Year()) > 9999 {
			return // nobody's clock says that
		}
		must(t, write(object, got))
		again, err := read(object)
		if err != nil {
			t.Fatalf("read %+v\nthen %v", got, err)
		}
		if got.RenewTime.UnixMicro() != again.RenewTime.UnixMicro() || got.AcquireTime.UnixMicro() != again.AcquireTime.UnixMicro() {
			t.Fatalf("read %+v\nthen %+v", got, again)
		}
		got.RenewTime, got.AcquireTime = again.RenewTime, again.AcquireTime
		if got != again {
			t.Fatalf("read %+v\nthen %+v", got, again)
		}
	})
}
