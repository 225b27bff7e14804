package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/backup"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/diskspace"
	"github.com/emco-orchestrator/emco/src/emco/internal/doctor"
	"github.com/emco-orchestrator/emco/src/emco/internal/fileowner"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	drivers "github.com/emco-orchestrator/emco/src/emco/internal/store/all"
)

// flags is where a command adds its own flags to the settings.
type flags = *flag.FlagSet

// backupCommand asks the process that owns the data folder for a backup.
func backupCommand(args []string, std IO) int {
	return fileCommand("backup", "to", "the file to write; it must not exist", args, std, func(c config.Config, to string) error {
		m, err := backup.Fetch(context.Background(), localSocket(c), to)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(std.Out, "%s holds %d documents and %d packages; keep the sealing key in another place\n", to, m.Documents, len(m.Sums)-2)
		for _, digest := range m.Missing {
			_, _ = fmt.Fprintf(std.Out, "package %s is missing in the store: upload it again\n", digest)
		}
		return nil
	})
}

// restoreCommand makes a data folder from a backup.
func restoreCommand(args []string, std IO) int {
	return fileCommand("restore", "from", "the file that emco backup wrote", args, std, func(c config.Config, from string) error {
		m, err := backup.Restore(context.Background(), c.Data, filepath.Base(keyFile(c)), from)
		if err == nil {
			_, _ = fmt.Fprintf(std.Out, "%s holds the state of %s; put sealing.key there too, start emco, and adopt the branches (emcoctl branches, emcoctl adopt)\n", c.Data, m.Time.Format("2006-01-02 15:04:05 MST"))
		}
		return err
	})
}

// fileCommand runs a command that needs the name of a file, from a flag.
func fileCommand(name, option, help string, args []string, std IO, run func(c config.Config, file string) error) int {
	var file string
	c, code := loadWith(args, std, func(fs flags) { fs.StringVar(&file, option, "", name+": "+help) })
	if code != exitOK || c == nil {
		return code
	}
	if file == "" {
		_, _ = fmt.Fprintf(std.Err, "emco %s: name the file with -%s FILE\n", name, option)
		return exitUsage
	}
	if err := run(*c, file); err != nil {
		_, _ = fmt.Fprintf(std.Err, "emco %s: %v\n", name, err)
		return exitFailed
	}
	return exitOK
}

// migrateCommand copies documents and packages from one store to another while no process runs.
func migrateCommand(args []string, std IO) int {
	var from, to string
	c, code := loadWith(args, std, func(fs flags) {
		fs.StringVar(&from, "from", "", "migrate-store: the driver that has the documents")
		fs.StringVar(&to, "to", "", "migrate-store: the driver that gets them")
	})
	if code != exitOK || c == nil {
		return code
	}
	all := drivers.Drivers()
	if all[from] == nil || all[to] == nil || from == to {
		_, _ = fmt.Fprintln(std.Err, "emco migrate-store: name two drivers with -from and -to: sqlite, etcd or mongo")
		return exitUsage
	}
	if err := migrate(context.Background(), *c, from, to, std.Out); err != nil {
		_, _ = fmt.Fprintln(std.Err, "emco migrate-store:", err)
		return exitFailed
	}
	return exitOK
}

// doctorCommand checks the stores while emco does not run, and prints one line for each contradiction.
func doctorCommand(args []string, std IO) int {
	var branches bool
	c, code := loadWith(args, std, func(fs flags) {
		fs.BoolVar(&branches, "branches", false, "doctor: also read the Git branches, and name files that belong to no deployment")
	})
	if code != exitOK || c == nil {
		return code
	}
	faults := 0
	note := func(text string) { _, _ = fmt.Fprintln(std.Err, "emco doctor:", text) }
	err := checkStores(context.Background(), *c, branches, note, func(subject, fault string) {
		faults++
		_, _ = fmt.Fprintf(std.Out, "%s: %s\n", subject, fault)
	})
	if err != nil {
		_, _ = fmt.Fprintln(std.Err, "emco:", err)
		return exitFailed
	}
	if faults > 0 {
		plural := "s"
		if faults == 1 {
			plural = ""
		}
		_, _ = fmt.Fprintf(std.Out, "%d fault%s; docs/guides/backup.md says how to restore\n", faults, plural)
		return exitFailed
	}
	_, _ = fmt.Fprintln(std.Out, "the stores agree")
	return exitOK
}

// checkStores opens the stores as a start does, which completes writes that a crash interrupted. It notes what it reads, which may
// take a while, and what lowers the worth of the result.
func checkStores(ctx context.Context, c config.Config, branches bool, note func(text string), report doctor.Report) (err error) {
	a, p, err := offline(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	note(fmt.Sprintf("reading %s and %s; a server that does not answer is given up after %s", storePlaces(c, documentDriver(c)).Documents, etcdPlace(c), commandPatience))
	if len(c.Etcd.Endpoints) == 0 {
		note("emco must be stopped meanwhile, because it locks its own etcd; emcoctl doctor checks a running emco")
	}
	others, err := a.others(ctx, c, p)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		note("what running processes write meanwhile may look like a fault; stop them, or check again, before you act on one: " + strings.Join(others, ", "))
	}
	a.apart = func(_ context.Context, apart error) error {
		report("the stores", apart.Error()+": restore both from the same backup, or use emco adopt")
		return nil
	}
	m := newMetrics()
	st, err := a.openStores(ctx, c, p, m)
	if err != nil {
		return err
	}
	stores := doctor.Stores{Contexts: st.contexts, Documents: st.db}
	if err := doctor.Check(ctx, stores, report); err != nil || !branches {
		return err
	}
	return doctor.NewBranches(stores, a.gitHost(c, p, st, m), &route.Resolver{DB: st.db, Rules: storedRules(c, p)}).CheckAll(ctx, report)
}

// adoptCommand joins stores that are from different times, while emco does not run.
func adoptCommand(args []string, std IO) int {
	c, code := load(args, std, warnTo(std.Err))
	if code != exitOK || c == nil {
		return code
	}
	if err := adopt(context.Background(), *c, std.Out); err != nil {
		_, _ = fmt.Fprintln(std.Err, "emco adopt:", err)
		return exitFailed
	}
	return exitOK
}

func adopt(ctx context.Context, c config.Config, out io.Writer) (err error) {
	a, p, err := offline(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	others, err := a.others(ctx, c, p)
	if err == nil {
		err = wantStopped(others)
	}
	if err != nil {
		return err
	}
	var adopted error
	a.apart = func(_ context.Context, apart error) error { adopted = apart; return nil }
	st, err := a.openStores(ctx, c, p, newMetrics())
	if err != nil {
		return err
	}
	if adopted == nil {
		_, err = fmt.Fprintln(out, "the stores are of the same generation; nothing was changed")
		return err
	}
	if err := st.joined.Adopt(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s. They are one again: start emco, adopt the branches (emcoctl branches, emcoctl adopt), and see emco doctor\n", adopted)
	return err
}

// others returns the names of the processes that run on a common etcd. An embedded one has a lock.
func (a *App) others(ctx context.Context, c config.Config, p resolvedSettings) ([]string, error) {
	if len(c.Etcd.Endpoints) == 0 {
		return nil, nil
	}
	client, err := a.dialEtcd(c.Etcd, p.etcdTLS)
	if err != nil {
		return nil, err
	}
	return running(ctx, c, etcdkv.New(client, c.Etcd.Prefix, etcdkv.Options{Log: a.log}))
}

// commandPatience is how long stores may take to answer a command, whose user waits for it.
const commandPatience = 10 * time.Second

// offline returns an App without services, for commands that open stores while no emco runs.
func offline(c config.Config) (*App, resolvedSettings, error) {
	if _, err := os.Stat(c.Data); err != nil {
		return nil, resolvedSettings{}, fmt.Errorf("data folder: %w", fileowner.Explain(err, c.Data)) // a start would create it
	}
	p, err := resolve(c)
	if err != nil {
		return nil, resolvedSettings{}, err
	}
	a := &App{log: slog.New(slog.DiscardHandler), member: member(c), patience: commandPatience}
	a.onClose(p.azure.Close)
	a.disk = diskspace.New(diskspace.Options{Dir: c.Data, Bytes: 0, OnProbe: func(int64) {}, Log: a.log})
	return a, p, nil
}
