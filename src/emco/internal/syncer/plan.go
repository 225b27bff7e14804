package syncer

import (
	"path"

	"github.com/emco-orchestrator/emco/src/git"
)

// Tree returns the files of apps by path relative to Target.Dir, as every backend
// that keeps upstream's layout writes them.
func (w *Writer) Tree(apps []App) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, a := range apps {
		files, err := a.Files()
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			content, err := w.Write(f)
			if err != nil {
				return nil, a.invalid(f.Object, err)
			}
			out[path.Join("app", a.Name, f.Name)] = content
		}
	}
	return out, nil
}

// EditDir returns an edit that makes dir hold exactly files, or removes it without files.
func EditDir(dir string, files map[string][]byte) git.Edit {
	if len(files) == 0 {
		return git.Edit{Path: dir}
	}
	return git.Edit{Path: dir, Dir: files}
}
