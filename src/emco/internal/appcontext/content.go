package appcontext

import "github.com/emco-orchestrator/emco/src/emco/internal/appcontext/blobstore"

// Content and its parts, see package blobstore.
type (
	Bundle  = blobstore.Bundle
	Ref     = blobstore.Ref
	HookRef = blobstore.HookRef
	Swept   = blobstore.Swept

	SealCount = blobstore.SealCount
)
