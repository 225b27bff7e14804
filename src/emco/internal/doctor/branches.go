package doctor

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	branchTime   = 20 * time.Second // for the reading of a branch
	maxFiles     = 1_000_000        // of a branch that are looked at
	maxFolders   = 100_000          // deployments of a branch that are looked at
	maxStrangers = 1000             // deployments of a branch that are named
)

// Branches looks for files on Git branches that no deployment owns.
type Branches struct {
	Stores
	Host Host
	Repo func(ctx context.Context, b gitstate.Branch) (git.Repo, error) // with a credential
}

// NewBranches returns the check of the branches that routes lead to.
func NewBranches(s Stores, host Host, routes *route.Resolver) *Branches {
	return &Branches{Stores: s, Host: host, Repo: func(ctx context.Context, b gitstate.Branch) (git.Repo, error) {
		return routes.Lookup().Repo(ctx, route.Branch{URL: b.URL, Name: b.Name})
	}}
}

// CheckAll looks at all branches that EMCO writes, see Check.
func (b Branches) CheckAll(ctx context.Context, report Report) error {
	for lane := ""; ; {
		var err error
		if lane, err = b.Check(ctx, lane, pageBranches, report); err != nil || lane == "" {
			return err
		}
	}
}

// Host reads from Git servers, see git.Host.
type Host interface {
	Head(ctx context.Context, r git.Repo, branch string) (git.Hash, error)
	Tree(ctx context.Context, r git.Repo, at git.Hash, under string) iter.Seq2[git.Entry, error]
}

// Check looks at up to most branches that EMCO writes, in order of their lanes, beginning after a lane; "" is the first. It reports
// folders that belong to no deployment that EMCO knows, and branches that cannot be read, and returns the last lane if there
// are more.
func (b Branches) Check(ctx context.Context, after string, most int, report Report) (next string, err error) {
	var all []gitstate.Branch
	for record, err := range b.Contexts.Branches(ctx) {
		if err != nil {
			return "", err
		}
		if v2.LaneID(record.URL, record.Name) > after {
			all = append(all, record)
		}
	}
	slices.SortFunc(all, func(x, y gitstate.Branch) int {
		return cmp.Compare(v2.LaneID(x.URL, x.Name), v2.LaneID(y.URL, y.Name))
	})
	if len(all) > most {
		all = all[:most]
		next = v2.LaneID(all[most-1].URL, all[most-1].Name)
	}
	looks := make([]branchFindings, len(all))
	for i, record := range all {
		if looks[i] = b.look(ctx, record); ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
	if err := b.compare(ctx, looks); err != nil {
		return "", err
	}
	documents, err := b.documents(ctx, looks)
	if err != nil {
		return "", err
	}
	for _, l := range looks {
		l.report(documents, report)
	}
	return next, nil
}

// branchFindings is what was found on a branch.
type branchFindings struct {
	subject string
	found   map[string]folders // by id of their deployment
	cut     bool               // files were left out
	failed  error              // why the branch cannot be read
}

// compare removes the folders that deployments own from looks. It reads the deployments after the files, so that those of a new deployment are no fault.
func (b Branches) compare(ctx context.Context, looks []branchFindings) error {
	for h, err := range b.Contexts.Heads(ctx) {
		if err != nil {
			return err
		}
		for _, l := range looks {
			delete(l.found, string(h.Deployment()))
		}
	}
	return nil
}

// report reports what is wrong with a branch. documents are those that have ids of deployments.
func (l branchFindings) report(documents map[string]store.Key, report Report) {
	if l.failed != nil {
		report(l.subject, fmt.Sprintf("its files cannot be read: %v. Check whether the repository and the branch exist, and its credential", l.failed))
	}
	if l.cut {
		report(l.subject, fmt.Sprintf("it has more than %d files or %d deployments, and only the first ones were looked at: spread its clusters over branches (gitOpsRefMode: shard)", maxFiles, maxFolders))
	}
	for i, id := range slices.Sorted(maps.Keys(l.found)) {
		if i == maxStrangers {
			report(l.subject, fmt.Sprintf("%d more deployments that EMCO does not know have folders: mend the former ones, then check again", len(l.found)-i))
			break
		}
		f := l.found[id]
		text := "folder " + f.first
		if f.count > 1 {
			text += fmt.Sprintf(" and %d more of deployment %s belong", f.count-1, id)
		} else {
			text += " belongs"
		}
		text += " to no deployment that EMCO knows, so nothing changes or removes what is in it. "
		if key, known := documents[id]; known {
			text += fmt.Sprintf("%s has the id %s and no head: restore the AppContext from a backup", key, id)
		} else {
			text += "Unless another EMCO writes this branch, restore the stores from a backup, or remove the folder with a commit of yours"
		}
		report(l.subject, text)
	}
}

// folders are those of a deployment on a branch.
type folders struct {
	first string // in order of paths
	count int
}

// look finds the folders of deployments on a branch.
func (b Branches) look(ctx context.Context, record gitstate.Branch) branchFindings {
	l := branchFindings{subject: "branch " + record.Name + " of " + record.URL, found: map[string]folders{}}
	l.failed = b.read(ctx, record, &l)
	return l
}

// read reads the list of files of a branch.
func (b Branches) read(ctx context.Context, record gitstate.Branch, into *branchFindings) error {
	ctx, cancel := context.WithTimeout(ctx, branchTime)
	defer cancel()
	repo, err := b.Repo(ctx, record)
	if err != nil {
		return err
	}
	head, err := b.Host.Head(ctx, repo, record.Name)
	if err != nil {
		return err
	}
	files, last := 0, ""
	for e, err := range b.Host.Tree(ctx, repo, head, "clusters") {
		if err != nil {
			clear(into.found)
			return err
		}
		if files++; files > maxFiles || len(into.found) > maxFolders {
			into.cut = true
			return nil
		}
		folder, id, ok := folderOf(e.Path)
		if !ok || folder == last {
			continue
		}
		last = folder
		if git.CheckPath(folder) != nil {
			continue // EMCO writes no such path, and it may be of any length
		}
		f := into.found[id]
		into.found[id] = folders{cmp.Or(f.first, folder), f.count + 1}
	}
	return nil
}

// folderOf returns the folder of a deployment that a file is in: clusters/…/context/ID.
func folderOf(path string) (folder, id string, ok bool) {
	before, rest, ok := strings.Cut(path, "/context/")
	if !ok {
		return "", "", false
	}
	id, _, inside := strings.Cut(rest, "/")
	if !inside || id == "" || strings.Trim(id, "0123456789") != "" {
		return "", "", false
	}
	return before + "/context/" + id, id, true
}

// documents returns the documents whose ids are those of folders.
func (b Branches) documents(ctx context.Context, looks []branchFindings) (map[string]store.Key, error) {
	ids, out := map[string]bool{}, map[string]store.Key{}
	for _, l := range looks {
		for id := range l.found {
			ids[id] = true
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	for doc, err := range b.Documents.List(ctx, "", store.Query{}) {
		if err != nil {
			return nil, err
		}
		if ids[doc.UID] {
			out[doc.UID] = doc.Key
		}
	}
	return out, nil
}
