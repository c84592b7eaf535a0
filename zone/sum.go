// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sum is a duration together with how it came about.
type Sum []Term

// Term is a summand, by the name that explains it: Each, so many Times.
type Term struct {
	Times int // negative for what is taken away
	Name  string
	Each  time.Duration
}

// Total is what the terms add up to.
func (s Sum) Total() time.Duration {
	var total time.Duration
	for _, t := range s {
		total += time.Duration(t.Times) * t.Each
	}
	return total
}

// String is the formula with its numbers, such as
// "LeaseDuration 15s - half a RenewInterval 1s", without the total.
func (s Sum) String() string {
	var b strings.Builder
	for i, t := range s {
		n := max(t.Times, -t.Times)
		switch {
		case t.Times < 0:
			b.WriteString(" - ")
		case i > 0:
			b.WriteString(" + ")
		}
		if n > 1 {
			fmt.Fprintf(&b, "%d x ", n)
		}
		b.WriteString(t.Name + " " + t.Each.Round(time.Millisecond).String())
	}
	return b.String()
}

// and returns the sum of both, in which no name stands twice, and nothing that
// is zero.
func (s Sum) and(more ...Term) Sum {
	s = slices.Clone(s)
	for _, t := range more {
		same := func(o Term) bool { return o.Name == t.Name && o.Each == t.Each }
		if i := slices.IndexFunc(s, same); i >= 0 {
			s[i].Times += t.Times
		} else {
			s = append(s, t)
		}
	}
	return slices.DeleteFunc(s, func(t Term) bool { return t.Times == 0 || t.Each == 0 })
}

// less returns s without the terms of another sum.
func (s Sum) less(o Sum) Sum {
	for _, t := range o {
		t.Times = -t.Times
		s = s.and(t)
	}
	return s
}

// sum is the sum of terms, see and.
func sum(terms ...Term) Sum { return Sum{}.and(terms...) }

func once(name string, d time.Duration) Term { return Term{1, name, d} }
