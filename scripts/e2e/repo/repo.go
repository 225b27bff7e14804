// Package repo reads a bare repository from outside: the files of a branch, its history, and the
// authors of its commits.
package repo

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// Tree returns the blob of each file at a revision, by path. A branch that does not
// exist yet holds no files.
func Tree(ctx context.Context, b gittest.Bare, revision string) (map[string]string, error) {
	files := map[string]string{}
	if _, err := b.Git(ctx, "", "rev-parse", "-q", "--verify", revision); err != nil {
		return files, nil
	}
	out, err := b.Git(ctx, "", "ls-tree", "-r", "-z", revision)
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if entry == "" {
			continue
		}
		head, path, ok := strings.Cut(entry, "\t")
		field := strings.Fields(head)
		if !ok || len(field) != 3 {
			return nil, fmt.Errorf("ls-tree printed %q", entry)
		}
		files[path] = field[2]
	}
	return files, nil
}

// Below returns the files of a tree in a folder.
func Below(files map[string]string, folder string) []string {
	var out []string
	for path := range files {
		if strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/") {
			out = append(out, path)
		}
	}
	return out
}

// Commit is one entry of a history.
type Commit struct {
	Hash, Tree, Parents, Committer, Subject string
	Time                                    int64 // seconds
}

// Ours reports whether emco made the commit.
func (c Commit) Ours() bool { return c.Committer != "somebody" }

// History returns the first parents of a branch, the newest first.
func History(ctx context.Context, b gittest.Bare, branch string) ([]Commit, error) {
	if _, err := b.Git(ctx, "", "rev-parse", "-q", "--verify", "refs/heads/"+branch); err != nil {
		return nil, nil
	}
	out, err := b.Git(ctx, "", "log", "--first-parent", "--format=%H%x00%T%x00%P%x00%cn%x00%s%x00%ct", branch)
	if err != nil {
		return nil, err
	}
	var all []Commit
	for line := range strings.SplitSeq(out, "\n") {
		f := strings.Split(line, "\x00")
		if len(f) != 6 {
			return nil, fmt.Errorf("log printed %q", line)
		}
		seconds, err := strconv.ParseInt(f[5], 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, Commit{Hash: f[0], Tree: f[1], Parents: f[2], Committer: f[3], Subject: f[4], Time: seconds})
	}
	return all, nil
}

// Repeated returns our empty commits: their tree is that of their parent.
func Repeated(history []Commit) []Commit {
	var out []Commit
	for i, c := range history {
		if c.Ours() && i+1 < len(history) && c.Tree == history[i+1].Tree {
			out = append(out, c)
		}
	}
	return out
}

// Rewound returns the moves of a branch in its reflog that were no fast-forward: each move must have
// the previous position as an ancestor. The repository must keep a reflog.
func Rewound(ctx context.Context, b gittest.Bare, branch string) (bad []string, moves int, err error) {
	out, err := b.Git(ctx, "", "reflog", "show", "--format=%H", "refs/heads/"+branch)
	if err != nil {
		return nil, 0, err
	}
	heads := strings.Fields(out) // the newest first
	order := map[string]int{}
	all, err := b.Git(ctx, "", "rev-list", "--topo-order", "--first-parent", branch)
	if err != nil {
		return nil, 0, err
	}
	for i, hash := range strings.Fields(all) {
		order[hash] = i + 1
	}
	last := 0
	for _, hash := range heads {
		place := order[hash]
		if place == 0 || place <= last {
			bad = append(bad, hash)
			continue
		}
		last = place
	}
	return bad, len(heads), nil
}
