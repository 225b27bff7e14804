package port

import (
	"net"
	"testing"
)

func TestPickedPortsDifferAndAreFree(t *testing.T) {
	ports, err := Pick(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if seen[p] {
			t.Errorf("Pick gave %d twice", p)
		}
		seen[p] = true
		l, err := net.Listen("tcp", Address(p))
		if err != nil {
			t.Errorf("Pick gave %d, which is in use: %v", p, err)
			continue
		}
		l.Close()
	}
	if len(ports) != 20 {
		t.Errorf("Pick(20) gave %d ports", len(ports))
	}
}
