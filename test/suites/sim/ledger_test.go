// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"encoding/json"
	"errors"
	"os"
)

// entry is a line of the ledger: the outcome of many schedules of a population.
type entry struct {
	Date         string         `json:"date"`
	Commit       string         `json:"commit"`
	Population   string         `json:"population"`
	FirstSeed    uint64         `json:"firstSeed"`
	LastSeed     uint64         `json:"lastSeed"`
	Schedules    int            `json:"schedules"`
	Failovers    int            `json:"failovers"`
	Unlawful     int            `json:"unlawful"` // schedules that broke a rule, overlaps among candidates first of all
	Excused      map[string]int `json:"excused"`  // overlaps that other programs had a part in, by cause
	VirtualHours int            `json:"virtualHours"`
	Seconds      int            `json:"seconds"`
}

func (e entry) String() string {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // it has only numbers and strings
	}
	return string(line)
}

// append appends e to a file.
func (e entry) append(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // G302, G304: a file of the repository, for all to read
	if err != nil {
		return err
	}
	_, err = f.WriteString(e.String() + "\n")
	return errors.Join(err, f.Close())
}
