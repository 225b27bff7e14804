// Package port picks free TCP ports of 127.0.0.1.
package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are below the range that Linux uses for outgoing connections (32768 and up), so only another
// server can take one between the pick and its use.
const (
	lowest  = 20000
	highest = 32000
	tries   = 200
)

// Pick returns n different ports without a listener. Another process may take one before its use:
// callers must be ready to pick again.
func Pick(n int) ([]int, error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	var ports []int
	for range n {
		l, err := listen()
		if err != nil {
			return nil, err
		}
		held = append(held, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Address returns the address of a port of 127.0.0.1.
func Address(port int) string {
	return fmt.Sprintf("127.0.0.1:%d", port)
}

func listen() (net.Listener, error) {
	for range tries {
		if l, err := net.Listen("tcp", Address(lowest+rand.IntN(highest-lowest))); err == nil {
			return l, nil
		}
	}
	return nil, errors.New("no free port of 127.0.0.1: stop other servers")
}
