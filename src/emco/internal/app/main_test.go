package app_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

// TestMain runs the tests, unless the test program is started as a child: to render one
// chart, to be emco, to be one that tests kill, or to be an etcd.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(app.Main(os.Args[1:], app.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	if len(os.Args) > 1 && os.Args[1] == wholeProgram {
		os.Exit(app.Main(os.Args[2:], app.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	etcdtest.SmallLog() // not above: full disks are tested with the real size
	if len(os.Args) > 2 && os.Args[1] == crashProgram {
		os.Exit(runCrashChild(os.Args[2], os.Args[3:]))
	}
	if code, asked := etcdtest.Main(os.Args); asked {
		os.Exit(code)
	}
	debug.SetGCPercent(400) // a tenth less work
	// Tests mostly wait for servers, so more of them than processors can run at the same
	// time. The command line may override this.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}
