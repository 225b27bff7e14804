package syncer

import (
	"maps"
	"path"

	"github.com/emco-orchestrator/emco/src/git"
)

// Tree returns the files of apps by path below the directory of a target. Targets with the same
// apps get the same map, so that whoever writes it does the work once; callers must not change it.
func (w *Writer) Tree(apps []App) (map[string][]byte, error) {
	key := treeKeyOf(apps)
	if files, ok := w.trees.get(key); ok {
		return files, nil
	}
	files, err := w.tree(apps)
	if err == nil {
		w.trees.put(key, files)
	}
	return files, err
}

func (w *Writer) tree(apps []App) (map[string][]byte, error) {
	out := map[string][]byte{}
	if len(apps) > 0 {
		maps.Copy(out, w.always)
	}
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
