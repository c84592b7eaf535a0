package main

import (
	"testing"
	"time"
)

func TestDbg(t *testing.T) {
	DBG = true
	r := in(t, "zonelect", constant(3500*time.Millisecond), 0)
	t.Log(r)
}
