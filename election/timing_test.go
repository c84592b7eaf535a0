// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zonelect/zonelect/election"
	"github.com/zonelect/zonelect/election/timing"
	"github.com/zonelect/zonelect/locks/lockstest"
)

func TestTheDefaultsAreTheLawfulOnesOfClientGo(t *testing.T) {
	timing := election.Timing{}.WithDefaults()
	if err := timing.Validate(); err != nil {
		t.Fatal(err)
	}
	if timing.LeaseDuration != 15*time.Second || timing.RenewDeadline != 10*time.Second || timing.RenewInterval != 2*time.Second ||
		timing.StopGrace != 4850*time.Millisecond || timing.AttemptTimeout != 2*time.Second {
		t.Errorf("defaults are %+v", timing)
	}
}

func TestTimingThatBreaksTheLawIsRefusedWithTheNumbers(t *testing.T) {
	s, ms := time.Second, time.Millisecond
	for name, test := range map[string]struct {
		timing election.Timing
		want   []string // what the error says
	}{
		"renewal does not fit": {
			election.Timing{LeaseDuration: 15 * s, RenewDeadline: 3 * s, RenewInterval: 2 * s},
			[]string{"RenewInterval 2s + AttemptTimeout 2s is 1s more than RenewDeadline 3s", "RenewDeadline of at least 4s"},
		},
		"stop does not fit": {
			election.Timing{LeaseDuration: 16 * s, RenewDeadline: 15 * s, RenewInterval: 5 * s, StopGrace: 2 * s},
			[]string{"RenewDeadline 15s + StopGrace 2s + drift 160ms is 1.16s more than LeaseDuration 16s", "LeaseDuration of at least 18s"},
		},
		"client-go's fourth fault": {
			election.Timing{LeaseDuration: 16 * s, RenewDeadline: 16 * s, RenewInterval: 5 * s},
			[]string{"drift 160ms is 160ms more than LeaseDuration 16s", "at least 17s"},
		},
		"shared second": {
			election.Timing{LeaseDuration: 3 * s, RenewDeadline: 2500 * ms, RenewInterval: 500 * ms},
			[]string{"+ 1s (RenewInterval is below 1s", "set Exclusive", "is 530ms more than LeaseDuration 3s", "at least 4s"},
		},
		"below a second": {
			election.Timing{LeaseDuration: 900 * ms, RenewDeadline: 500 * ms, RenewInterval: 200 * ms, Exclusive: true},
			[]string{"LeaseDuration is 900ms", "use 1s"},
		},
		"negative":  {election.Timing{RenewInterval: -s}, []string{"RenewInterval is -1s"}},
		"all drift": {election.Timing{MaxClockDrift: 1}, []string{"MaxClockDrift is 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.timing.WithDefaults().Validate()
			if !errors.Is(err, timing.ErrInvalid) {
				t.Fatalf("Validate: %v, want timing.ErrInvalid", err)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q:\n%v", part, err)
				}
			}
		})
	}
}

func TestNewNamesAllThatIsMissing(t *testing.T) {
	_, err := election.New(election.Config{
		Timing: election.Timing{LeaseDuration: time.Millisecond}, Health: election.Health{Interval: -1, After: -1},
	})
	if !errors.Is(err, election.ErrConfig) || !errors.Is(err, timing.ErrInvalid) {
		t.Fatalf("New: %v, want ErrConfig and timing.ErrInvalid", err)
	}
	for _, part := range []string{"Lock is nil", "Identity is empty", "LeaseDuration", "Health.Interval", "Health.After"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
}

// TestATakeoverTakesNoLongerThanItsBound, although the next leader's watch shows it nothing of the last renewals,
// and each request takes a tenth of AttemptTimeout.
func TestATakeoverTakesNoLongerThanItsBound(t *testing.T) {
	for name, of := range map[string]timing.Timing{"default": {}, "fast": timing.Fast(), "patient": timing.Patient()} {
		t.Run(name, func(t *testing.T) {
			of = of.WithDefaults()
			most, _ := of.Bounds()
			with := func(c *election.Config) { c.Timing = of }
			for after := of.RenewInterval / 50; after < 2*of.RenewInterval; after += of.RenewInterval / 9 {
				scenario(t, func(s *stage) {
					a := s.leader("a", with)
					b := s.start("b", with)
					time.Sleep(5 * time.Minute)
					b.link.Set(lockstest.Fault{Mute: true, Delay: of.AttemptTimeout / 20})
					time.Sleep(after)
					a.link.Set(cut)
					if _, took := b.Leads(); took > most || took < of.LeaseDuration-2*of.RenewInterval {
						t.Errorf("b leads after %v, want %v at most", took, most)
					}
				})
			}
		})
	}
}
