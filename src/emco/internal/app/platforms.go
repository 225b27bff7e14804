package app

import (
	"fmt"
	"os"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/dispatch"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/oci"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/s3"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc/arm"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// sinksOf returns the writers of branches, artifacts and buckets.
func sinksOf(c config.Config, branches *batch.Writers) dispatch.Writers {
	return dispatch.Writers{
		Branches:  branches,
		Artifacts: oci.New(oci.Options{Timeout: time.Duration(c.OCI.Timeout), PlainHTTP: c.OCI.PlainHTTP}),
		Buckets:   s3.New(s3.Options{Timeout: time.Duration(c.S3.Timeout), PlainHTTP: c.S3.PlainHTTP}),
	}
}

// backends returns the sync backends and the platforms that they call.
func (a *App) backends(c config.Config) (*syncer.Registry, error) {
	plugins, err := findPlugins(c)
	if err != nil {
		return nil, err
	}
	azure, err := a.azure(c)
	if err != nil {
		return nil, fmt.Errorf("azure: %w", err)
	}
	return backends.On(backends.Platforms{Azure: azure, Plugins: plugins}), nil
}

func (a *App) azure(c config.Config) (*arm.Client, error) {
	o := arm.Options{
		Authority: c.Azure.Authority, Manager: c.Azure.Manager, Audience: c.Azure.Audience,
		TokenFile: c.Azure.TokenFile, Timeout: time.Duration(c.Azure.Timeout), Writes: c.Azure.Writes,
	}
	if c.Azure.CA != "" {
		text, err := os.ReadFile(c.Azure.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		o.CA = string(text)
	}
	azure, err := arm.New(o)
	if err == nil {
		a.onClose(azure.Close)
	}
	return azure, err
}
