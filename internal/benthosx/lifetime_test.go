package benthosx

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLifetimeEndsTheRunAndNotTheClosingBehindIt(t *testing.T) {
	l, ended := newLifetime(), make(chan struct{})
	waited := l.Done() // what Benthos waits for, beside a signal
	left := make(chan struct{})
	go func() { defer close(left); l.end(ended) }()
	<-waited
	closing, cancel := context.WithTimeout(l, time.Hour)
	defer cancel()
	require.NoError(t, closing.Err(), "an ended one would be a hard stop")
	require.Nil(t, l.Done())
	close(ended)
	<-left
}

func TestLifetimeThatEndsEarlyEndsTheRunAtOnce(t *testing.T) {
	l, ended := newLifetime(), make(chan struct{})
	close(ended)
	l.end(ended)
	<-l.Done()
}
