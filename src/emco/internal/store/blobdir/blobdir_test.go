package blobdir_test

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/blobdir"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/storetest"
)

func TestDirKeepsTheContract(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	err := storetest.CheckBlobs(t.Context(), func() (store.Blobs, error) { return blobdir.Open(dir) })
	if err != nil {
		t.Error(err)
	}
}
