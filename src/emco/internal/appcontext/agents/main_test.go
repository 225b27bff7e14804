package agents

import "github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"

var must = etcdtest.Must
