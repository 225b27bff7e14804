package app

import (
	"net/netip"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/dispatch"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/oci"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/s3"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// sinksOf returns the writers of branches, artifacts and buckets.
func sinksOf(c config.Config, admit func(netip.Addr) error, branches *batch.Writers) dispatch.Writers {
	return dispatch.Writers{
		Branches:  branches,
		Artifacts: oci.New(oci.Options{Admit: admit, Timeout: time.Duration(c.OCI.Timeout), PlainHTTP: c.OCI.PlainHTTP}),
		Buckets:   s3.New(s3.Options{Admit: admit, Timeout: time.Duration(c.S3.Timeout), PlainHTTP: c.S3.PlainHTTP}),
	}
}
