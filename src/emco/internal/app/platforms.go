package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/oci"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/s3"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc/arm"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// jobWriters hands jobs to those who write what they are for: branches, artifacts or buckets.
type jobWriters struct {
	branches  *batch.Writers
	artifacts *oci.Publisher
	buckets   *s3.Publisher
}

func writersOf(c config.Config, branches *batch.Writers) jobWriters {
	return jobWriters{
		branches:  branches,
		artifacts: oci.New(oci.Options{Timeout: time.Duration(c.OCI.Timeout), PlainHTTP: c.OCI.PlainHTTP}),
		buckets:   s3.New(s3.Options{Timeout: time.Duration(c.S3.Timeout), PlainHTTP: c.S3.PlainHTTP}),
	}
}

// Submit has the job written.
func (w jobWriters) Submit(ctx context.Context, job batch.Job) (git.Hash, error) {
	switch job.Repo.Provider {
	case gitops.KindOCI:
		return w.artifacts.Submit(ctx, job)
	case gitops.KindS3:
		return w.buckets.Submit(ctx, job)
	}
	return w.branches.Submit(ctx, job)
}

// backends returns the sync backends, with the platforms that they talk to.
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
