package resource

import (
	"encoding/json"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// NamedFile is one of several files of a document.
type NamedFile struct {
	Name    string `json:"name"` // as the client named it
	Content []byte `json:"content"`
}

// PackFiles returns the content under which several files are kept.
func PackFiles(files []NamedFile) ([]byte, error) { return json.Marshal(files) }

// UnpackFiles returns the files of a content; none of an empty one.
func UnpackFiles(content []byte) (files []NamedFile, err error) {
	if len(content) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(content, &files); err != nil {
		return nil, errs.E(errs.Internal, "read", "files", err)
	}
	return files, nil
}
