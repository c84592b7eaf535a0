// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// FuzzRead reads any JSON that decodes as a Lease. A record that a Lease can hold must read
// the same after it was written.
func FuzzRead(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.json")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, seed := range seeds {
		b, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var lease coordinationv1.Lease
		if json.Unmarshal(b, &lease) != nil {
			t.Skip("no lease")
		}
		got := Snapshot(&lease).Record
		if got.LeaseDuration < 0 || got.Transitions < 0 {
			t.Fatalf("negative: %+v", got)
		}
		if seconds := value(lease.Spec.LeaseDurationSeconds); seconds > 0 && got.LeaseDuration.Seconds() != float64(seconds) {
			t.Fatalf("a lease of %ds is read as one of %v", seconds, got.LeaseDuration)
		}
		if (got.Holder == "") != (value(lease.Spec.HolderIdentity) == "") {
			t.Fatalf("holder %q is read as %q", value(lease.Spec.HolderIdentity), got.Holder)
		}
		if Check(got) != nil {
			return
		}
		if again := Read(Write(&lease, got)); again != got {
			t.Fatalf("read %+v\nthen %+v", got, again)
		}
	})
}

// FuzzDetails reads the annotations that give a lock up or hand it over: only the one spelling of a
// token releases, and a handover names a successor and has a precedence.
func FuzzDetails(f *testing.F) {
	for _, seed := range [][3]string{
		{"a", "17", `{"to":"b","precedenceMs":4000}`}, {"", "0", `{"to":"b","precedenceMs":0}`},
		{"a", "0x11", `{"precedenceMs":4000}`}, {"a", "+17", `{"to":"b","precedenceMs":-4000}`}, {"a", "1e3", `{"to":["b"],"precedenceMs":1}`},
		{"a", "007", `{"to":"b","precedenceMs":"4000"}`}, {"a", "18446744073709551616", `{"to":"b","precedenceMs":9223372036855}`},
		{"a", "1.0", `{"to":"b"}`}, {"a", " 17", `{"to":"b","precedenceMs":4000,"new":1}`}, {"a", "\u0661\u0667", "b 4000"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, holder, released, handover string) {
		got := ReadDetails(map[string]string{AnnotationHolder: holder, AnnotationReleased: released, AnnotationHandover: handover})
		if got.Released != 0 && strconv.FormatUint(got.Released, 10) != released {
			t.Errorf("%q is read as a release of %d", released, got.Released)
		}
		h := got.Handover
		if (h.To == "") != (h.Precedence == 0) || h.Precedence < 0 || len(h.To) > MaxText || h != parseHandover(formatHandover(h)) {
			t.Errorf("%q is read as a handover to %q for %v", handover, h.To, h.Precedence)
		}
		if got.Holder != "" && got.Holder != holder {
			t.Errorf("%q is read as the holder %q", holder, got.Holder)
		}
		if again := ReadDetails(WriteDetails(nil, got)); again != got {
			t.Errorf("read %+v\nthen %+v", got, again)
		}
	})
}

// FuzzStage reads two stages: each is none, or the one that was written, and the later of the
// two is one of them, whichever is asked.
func FuzzStage(f *testing.F) {
	f.Add("dual", "3", true, "sealed", "4", true)
	f.Add("halfway", "3", true, "", "", false)
	f.Add("legacy", "", false, "clean", "18446744073709551615", true)
	f.Add("Dual", "3", true, "sealed ", "4", true)
	f.Add("sealed", "007", true, "sealed", "-1", true)
	f.Add("clean", "", true, "", "3", true)
	f.Fuzz(func(t *testing.T, phaseA, stepA string, hasA bool, phaseB, stepB string, hasB bool) {
		read := func(phase, step string, has bool) Stage {
			there := map[string]string{AnnotationPhase: phase}
			if has {
				there[AnnotationPhaseStep] = step
			}
			s := ReadStage(there)
			if s != (Stage{}) && !maps.Equal(WriteStage(nil, s), there) {
				t.Errorf("%v is read as %+v", there, s)
			}
			return s
		}
		a, b := read(phaseA, stepA, hasA), read(phaseB, stepB, hasB)
		if late := a.Later(b); late != b.Later(a) || late != a && late != b || late.Step < max(a.Step, b.Step) {
			t.Errorf("the later of %+v and %+v is %+v, or %+v", a, b, late, b.Later(a))
		}
	})
}

// FuzzLegacy reads any name of a legacy lock: as none, or exactly as it was written.
func FuzzLegacy(f *testing.F) {
	for _, seed := range []string{
		"", "configmap/op", "annotation/configmaps/op", "annotation/endpoints/op", "annotation/pods/op", "configmap/",
		"annotation/configmap/op", "configmap/a/b", "op", "endpoints/op", "annotation/endpoints/", "ANNOTATION/endpoints/op",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if l := ParseLegacy(text); l != (Legacy{}) && l.String() != text {
			t.Errorf("%q is read as %+v", text, l)
		}
	})
}
