package app_test

import (
	"flag"
	"os"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// TestMain makes the test program the child that renders one chart, when it is
// started as one: the program under test starts itself. It may also be emco itself, to be
// killed, or an etcd.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(app.Main(os.Args[1:], app.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	if len(os.Args) > 2 && os.Args[1] == victimProgram {
		os.Exit(runVictim(os.Args[2], os.Args[3:]))
	}
	if code, asked := etcdtest.Main(os.Args); asked {
		os.Exit(code)
	}
	// The tests wait most of the time, for servers that are away: more of them than
	// there are processors can run. The command line may say otherwise.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
