package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The deployment, and the exit codes of emcoctl that the story expects.
const (
	group = "shop/till/v1/autumn"

	exitOK      = 0
	exitChanges = 1 // plan, diff: something would change
	exitFailed  = 7 // an app fails
)

// The three versions of one line of a chart and of two lines of profiles.
var (
	moreReplicas = replacement{"profiles/web/override_values.yaml", "replicas: 2", "replicas: 3"}
	moreMemory   = replacement{"profiles/cache/override_values.yaml", "memory: 256", "memory: 512"}
	broken       = replacement{"charts/web/templates/service.yaml", "kind: Service", "kind Service"}
	repaired     = replacement{broken.file, broken.to, broken.from}
)

// step is one part of the story.
type step struct {
	title string
	do    func(context.Context) error
}

// play runs the story. With keep, it ends before the removal.
func (s *stage) play(ctx context.Context, keep bool) error {
	story := []step{
		{"Register a provider with three clusters that pull from Git", s.apply("00-clusters.yaml")},
		{"Onboard a composite app of two charts", s.apply("01-app.yaml")},
		{"Select clusters for each app, and instantiate", s.apply("02-deployment.yaml")},
		{"Wait until the clusters report that everything is ready", s.first},
		{"The Git branch that the clusters pull", s.branch},
		{"A second apply changes nothing", s.again},
		{"A change: web gets a third replica. Plan it, look at the difference, roll it out", s.change},
		{"A manifest of web breaks, and cache gets more memory: only web is held back", s.fault},
		{"The fix arrives", s.fix},
		{"Roll back to the first revision: the same bytes, without rendering", s.rollback},
		{"Who changed what, when and why", s.ctl(exitOK, "revisions", group)},
	}
	if !keep {
		story = append(story, step{"Terminate: nothing of the deployment is left in Git", s.terminate})
	}
	for i, part := range story {
		fmt.Fprintf(s.out, "\n── %d. %s ──\n", i+1, part.title)
		if err := part.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.title, err)
		}
	}
	return nil
}

// first waits for the first revision, and remembers its Git tree.
func (s *stage) first(ctx context.Context) error {
	err := all(ctx, s.ready, s.ctl(exitOK, "status", group), s.expect(revisions{"web": 1, "cache": 1}))
	if err != nil {
		return err
	}
	trees, err := s.revParse(ctx, "main:clusters")
	if err == nil {
		s.firstTree = trees[0]
	}
	return err
}

// branch shows the files and the last commit.
func (s *stage) branch(ctx context.Context) error {
	return all(ctx, s.gitCommand("ls-tree", "-r", "--name-only", "main"), s.gitCommand("log", "-1", "--format=%h %an: %s%n%(trailers)", "main"))
}

// again applies everything a second time: no line may contain created or configured, no commit may appear.
func (s *stage) again(ctx context.Context) error {
	before, err := s.revParse(ctx, "main")
	if err != nil {
		return err
	}
	var out bytes.Buffer
	args := s.withValues("00-clusters.yaml", "01-app.yaml", "02-deployment.yaml")
	if code, err := s.emcoctl(ctx, &out, args...); err != nil || code != exitOK {
		return errors.Join(fmt.Errorf("exit code %d", code), err)
	}
	after, err := s.revParse(ctx, "main")
	if err != nil || strings.Contains(out.String(), " created") || strings.Contains(out.String(), " configured") || before[0] != after[0] {
		return errors.Join(fmt.Errorf("something changed:\n%s", out.String()), err)
	}
	fmt.Fprintf(s.out, "%d documents and actions are unchanged, and the branch has no new commit.\n", strings.Count(out.String(), "\n"))
	return nil
}

// change plans an update and makes it.
func (s *stage) change(ctx context.Context) error {
	return all(ctx,
		s.edit(moreReplicas), s.onboard,
		s.ctl(exitChanges, "plan", group), s.ctl(exitChanges, "diff", group),
		s.ctl(exitOK, "update", group, "--reason", "a third replica"),
		s.ready, s.expect(revisions{"web": 2, "cache": 2}))
}

// fault breaks web and changes cache in one update: cache moves on, web keeps its files and stays ready.
func (s *stage) fault(ctx context.Context) error {
	const ofWeb, ofCache = "main:clusters/edge+alpha", "main:clusters/edge+charlie"
	before, err := s.revParse(ctx, ofWeb, ofCache)
	if err != nil {
		return err
	}
	err = all(ctx,
		s.edit(broken), s.edit(moreMemory), s.onboard,
		s.ctl(exitFailed, "plan", group),
		s.ctl(exitFailed, "update", group, "--reason", "more memory for the cache", "--wait"),
		s.eventually(s.heldBack), s.ctl(exitOK, "status", group))
	if err != nil {
		return err
	}
	after, err := s.revParse(ctx, ofWeb, ofCache)
	if err == nil && (after[0] != before[0] || after[1] == before[1]) {
		err = fmt.Errorf("the Git trees of web and cache are %v, they were %v: want that of web unchanged, and that of cache changed", after, before)
	}
	if err == nil {
		fmt.Fprintln(s.out, "The files of web are unchanged and ready; cache has its new files.")
	}
	return err
}

// fix repairs the chart.
func (s *stage) fix(ctx context.Context) error {
	return all(ctx,
		s.edit(repaired), s.onboard,
		s.ctl(exitOK, "update", group, "--reason", "repair the service of web"),
		s.ready, s.expect(revisions{"web": 4, "cache": 4}))
}

// rollback restores the first revision: the folders in Git are those of the first revision.
func (s *stage) rollback(ctx context.Context) error {
	err := all(ctx, s.ctl(exitOK, "rollback", group, "--revision", "1", "--reason", "two replicas were enough"),
		s.ready, s.expect(revisions{"web": 5, "cache": 5}))
	if err != nil {
		return err
	}
	now, err := s.revParse(ctx, "main:clusters")
	if err == nil && now[0] != s.firstTree {
		err = fmt.Errorf("the folder of the clusters is Git tree %s, at the first revision it was %s", now[0], s.firstTree)
	}
	if err == nil {
		fmt.Fprintf(s.out, "The folder of the clusters is Git tree %.12s again, as at the first revision.\n", now[0])
	}
	return err
}

// terminate removes the deployment.
func (s *stage) terminate(ctx context.Context) error {
	if err := s.ctl(exitOK, "terminate", group, "--wait")(ctx); err != nil {
		return err
	}
	left, err := s.gitOutput(ctx, "ls-tree", "-r", "--name-only", "main")
	fmt.Fprint(s.out, left)
	if err == nil && strings.Contains(left, "clusters/") {
		err = errors.New("files are left on the branch")
	}
	return err
}

// farewell ends a demonstration that did not stay.
func (s *stage) farewell(stays bool) {
	left := "is removed"
	if stays {
		left = "has ended; the folder " + s.dir + " stays"
	}
	fmt.Fprintf(s.out, "\nDone in %.1f s. Everything ran on 127.0.0.1 and %s.\n", time.Since(s.began).Seconds(), left)
	if !stays {
		fmt.Fprintln(s.out, "To try more commands, let it stay: emcoctl demo --keep")
	}
}

// invite prints what to try, and how to end.
func (s *stage) invite(stays bool) {
	left := "removes the folder"
	if stays {
		left = "leaves the folder"
	}
	fmt.Fprintf(s.out, `
── Now you ──
The deployment runs; the folder %[1]s contains everything. In another terminal:

    cd %[1]s/examples/01-git-fleet
    export PATH=%[2]s:$PATH EMCO_URL=%[3]s

    emcoctl tree %[4]s
    sed -i.bak 's/replicas: 3/replicas: 4/' ../profiles/web/override_values.yaml   # or any other edit
    ../pack.sh %[1]s/packages web cache
    emcoctl apply -v values.yaml -f 01-app.yaml
    emcoctl diff %[4]s
    emcoctl update %[4]s -y --wait
    emcoctl rollback %[4]s --revision 1 -y --wait
    git clone %[5]s fleet
    emcoctl terminate %[4]s --wait

Ctrl-C ends everything and %[6]s.
`, s.dir, s.programs.path(), s.url, group, s.git.cloneURL(), left)
}

// revisions are the revisions that apps have on all of their clusters.
type revisions map[string]int64

// expect checks that everything is Ready, at these revisions.
func (s *stage) expect(want revisions) func(context.Context) error {
	return func(ctx context.Context) error {
		st, err := s.status(ctx)
		if err != nil {
			return err
		}
		if st.ReadyStatus != "Ready" {
			return fmt.Errorf("readyStatus is %q, want Ready", st.ReadyStatus)
		}
		return errors.Join(st.allReady(), st.at(want))
	}
}

// heldBack checks that the failure of web names the file, that cache has none, and that everything is Ready.
func (s *stage) heldBack(ctx context.Context) error {
	st, err := s.status(ctx)
	if err != nil {
		return err
	}
	for _, app := range st.Apps {
		file, _, _ := strings.Cut(app.Failure.File, ":") // a line follows
		if named := "charts/"+file == broken.file; named != (app.Name == "web") {
			return fmt.Errorf("the failure of app %s names the file %q", app.Name, app.Failure.File)
		}
	}
	return st.allReady()
}

// deploymentStatus contains the members of a status that the story checks.
type deploymentStatus struct {
	ReadyStatus string
	Apps        []struct {
		Name     string
		Failure  struct{ File string }
		Clusters []struct {
			Cluster   string
			Revision  int64
			Resources []struct{ Name, ReadyStatus string }
		}
	}
}

func (s *stage) status(ctx context.Context) (st deploymentStatus, err error) {
	var out bytes.Buffer
	code, err := s.emcoctl(ctx, &out, "status", group, "-o", "json")
	if err == nil && code != exitOK {
		err = fmt.Errorf("emcoctl status: exit code %d", code)
	}
	if err != nil {
		return st, err
	}
	return st, json.Unmarshal(out.Bytes(), &st)
}

// allReady checks every object.
func (st deploymentStatus) allReady() error {
	for _, app := range st.Apps {
		for _, c := range app.Clusters {
			for _, r := range c.Resources {
				if r.ReadyStatus != "Ready" {
					return fmt.Errorf("%s of app %s on %s is %s", r.Name, app.Name, c.Cluster, r.ReadyStatus)
				}
			}
		}
	}
	return nil
}

// at checks the revisions of all apps on all their clusters.
func (st deploymentStatus) at(want revisions) error {
	if len(st.Apps) != len(want) {
		return fmt.Errorf("the status has %d apps, want %d", len(st.Apps), len(want))
	}
	for _, app := range st.Apps {
		if len(app.Clusters) == 0 {
			return fmt.Errorf("app %s is on no cluster", app.Name)
		}
		for _, c := range app.Clusters {
			if c.Revision != want[app.Name] {
				return fmt.Errorf("app %s on %s has revision %d, want %d", app.Name, c.Cluster, c.Revision, want[app.Name])
			}
		}
	}
	return nil
}

// replacement is an edit of a file of the examples.
type replacement struct{ file, from, to string }

func (s *stage) edit(r replacement) func(context.Context) error {
	return func(context.Context) error {
		path := filepath.Join(s.examples, filepath.FromSlash(r.file))
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.Count(string(text), r.from) != 1 {
			return fmt.Errorf("%s does not contain %q once", r.file, r.from)
		}
		fmt.Fprintf(s.out, "(edit %s: %q becomes %q)\n", r.file, r.from, r.to)
		return os.WriteFile(path, []byte(strings.Replace(string(text), r.from, r.to, 1)), 0o600)
	}
}

// onboard packs the charts and profiles again, and uploads them.
func (s *stage) onboard(ctx context.Context) error {
	if err := s.pack(ctx); err != nil {
		return err
	}
	var out bytes.Buffer
	args := s.withValues("01-app.yaml")
	fmt.Fprintln(s.out, "$ emcoctl", strings.Join(args, " "))
	code, err := s.emcoctl(ctx, &out, args...)
	for line := range strings.Lines(out.String()) {
		if !strings.HasSuffix(strings.TrimSpace(line), " unchanged") {
			fmt.Fprint(s.out, line)
		}
	}
	if err == nil && code != exitOK {
		err = fmt.Errorf("emcoctl apply: exit code %d", code)
	}
	return err
}

// all runs functions until one fails.
func all(ctx context.Context, parts ...func(context.Context) error) error {
	for _, do := range parts {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// apply applies a file of the example.
func (s *stage) apply(file string) func(context.Context) error {
	return s.ctl(exitOK, s.withValues(file)...)
}

func (s *stage) withValues(files ...string) []string {
	args := []string{"apply", "-v", "values.yaml"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	return args
}

// ready waits until the clusters report that the deployment is ready.
func (s *stage) ready(ctx context.Context) error {
	return s.ctl(exitOK, "wait", group)(ctx)
}

// ctl prints a command of emcoctl, runs it and expects an exit code.
func (s *stage) ctl(want int, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		fmt.Fprintln(s.out, "$ emcoctl", strings.Join(quoted(args), " "))
		code, err := s.emcoctl(ctx, s.out, args...)
		if err == nil && code != want {
			err = fmt.Errorf("emcoctl %s: exit code %d, want %d", args[0], code, want)
		}
		if err == nil && code != exitOK {
			fmt.Fprintf(s.out, "(exit code %d)\n", code)
		}
		return err
	}
}

// quoted quotes arguments with spaces, as a shell needs them.
func quoted(args []string) (out []string) {
	for _, a := range args {
		if strings.Contains(a, " ") {
			a = "'" + a + "'"
		}
		out = append(out, a)
	}
	return out
}

func (s *stage) gitCommand(args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		text, err := s.gitOutput(ctx, args...)
		_, _ = io.WriteString(s.out, text)
		return err
	}
}
