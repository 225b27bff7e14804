package etcd_test

import (
	"os"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
)

func TestMain(m *testing.M) {
	if code, asked := etcdtest.Main(os.Args); asked {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
