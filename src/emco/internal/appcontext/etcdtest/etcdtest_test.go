package etcdtest

import (
	"net"
	"os"
	"slices"
	"testing"
)

func TestMain(m *testing.M) {
	if code, asked := Main(os.Args); asked {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// Another program takes a port, once that for the other members and once that for clients,
// before a member does.
func TestTakenPortsAreGivenUp(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	taken, free := other.Addr().String(), pick(t, 6)
	tries := [][]string{{free[0], taken, free[2], free[3]}, {free[0], free[1], free[2], taken}, {free[0], free[1], free[4], free[5]}}
	c := start(t, Options{}, func() []string {
		next := tries[0]
		tries = tries[1:]
		return next
	})
	if len(tries) != 0 || !slices.Equal(c.Endpoints(), []string{"http://" + free[4], "http://" + free[5]}) {
		t.Errorf("it runs at %v, and %d tries are left", c.Endpoints(), len(tries))
	}
	c.Kill(0)
	c.Restart(0)
	c.Leader()
}
