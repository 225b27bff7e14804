package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/nearest"
	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/logs"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/isolated"
)

// IO are the program's standard streams.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
}

// Exit codes of emco.
const (
	exitOK     = 0
	exitFailed = 1 // it could not start, or a service failed
	exitUsage  = 2 // the configuration or the command line is wrong
)

const usage = `emco is the multi-cluster orchestrator.

  emco [flags]                 run the services
  emco config check [flags]    check the configuration
  emco config print [flags]    print the configuration, with secrets masked
  emco backup -to FILE         back up a running emco with embedded stores
  emco restore -from FILE      make a data folder from a backup
  emco migrate-store -from DRIVER -to DRIVER
                               copy documents and packages to another store while no emco runs
  emco keys list|verify|rotate|rewrap
                               show and change the keys that seal the stores of a running emco
  emco level show|raise        show the level of stored data, or raise it where level.auto is false, in a running emco
  emco doctor [flags]          compare the stores while emco does not run, and name what contradicts;
                               with -branches also folders on Git branches that no deployment owns
  emco adopt [flags]           continue with stores that were restored from different backups, while emco does not run
  emco version, emco -version  print the version, the commit and the Go release

Flags, and the environment variables that set them:

`

// Main runs the command that args name and returns the exit code.
func Main(args []string, std IO, opts ...Option) int {
	if version.Requested(args) {
		return printVersion(std.Out)
	}
	name := first(args)
	if name == renderChild {
		return child(args[1:], std)
	}
	all := commands(opts)
	if run, ok := all[name]; ok {
		return run(args[1:], std)
	}
	if name != "" && !strings.HasPrefix(name, "-") {
		return unknownCommand(name, slices.Sorted(maps.Keys(all)), std)
	}
	return services(args, std, opts)
}

// commands returns what runs for each command; without a command the services run.
func commands(opts []Option) map[string]func([]string, IO) int {
	return map[string]func([]string, IO) int{
		"config":        func(args []string, std IO) int { return configCommand(args, std, opts) },
		"backup":        backupCommand,
		"restore":       restoreCommand,
		"migrate-store": migrateCommand,
		"keys":          keysCommand,
		"level":         levelCommand,
		"doctor":        doctorCommand,
		"adopt":         adoptCommand,
		"help":          func(_ []string, std IO) int { return services([]string{"-help"}, std, opts) },
		"version":       versionWithMore,
	}
}

// unknownCommand names the commands that there are.
func unknownCommand(name string, names []string, std IO) int {
	hint := ""
	if near, ok := nearest.To(name, names); ok {
		hint = "; did you mean " + near + "?"
	}
	_, _ = fmt.Fprintf(std.Err, "emco: there is no command %q%s\nthe commands are %s; without one, the services run\nsee emco -help\n", name, hint, strings.Join(names, ", "))
	return exitUsage
}

// versionWithMore is emco version with arguments, of which it has none.
func versionWithMore(args []string, std IO) int {
	_, _ = fmt.Fprintf(std.Err, "emco version: unexpected argument %q\n", first(args))
	return exitUsage
}

// services runs the services.
func services(args []string, std IO, opts []Option) int {
	var warnings []string
	c, code := load(args, std, func(text string) { warnings = append(warnings, text) })
	if code != exitOK || c == nil {
		return code
	}
	return serve(*c, warnings, std, opts)
}

// child renders charts for the parent process; args holds the Kubernetes version that
// charts see.
func child(args []string, std IO) int {
	r, err := charts(first(args))
	if err == nil {
		err = isolated.Main(r, std.In, std.Out)
	}
	if err != nil {
		_, _ = fmt.Fprintln(std.Err, err)
		return exitFailed
	}
	return exitOK
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func configCommand(args []string, std IO, opts []Option) int {
	verb := first(args)
	if verb != "check" && verb != "print" {
		_, _ = fmt.Fprintln(std.Err, "emco config: use check or print")
		return exitUsage
	}
	c, code := load(args[1:], std, warnTo(std.Err))
	if code != exitOK || c == nil {
		return code
	}
	if verb == "check" {
		return check(*c, std, warnTo(std.Err), opts)
	}
	inForce := c.InForce()
	inForce.Store.Driver = documentDriver(*c)
	text, err := config.Print(inForce)
	if err != nil {
		_, _ = fmt.Fprintln(std.Err, "emco:", err)
		return exitFailed
	}
	_, _ = std.Out.Write(text)
	return exitOK
}

// warnTo returns what prints warnings of commands.
func warnTo(out io.Writer) func(text string) {
	return func(text string) { _, _ = fmt.Fprintln(out, "emco: warning:", text) }
}

// check reports what a start would refuse.
func check(c config.Config, std IO, warn func(string), opts []Option) int {
	if err := Check(c, warn, opts...); err != nil {
		_, _ = fmt.Fprintln(std.Err, "emco:", err)
		return exitUsage
	}
	return exitOK
}

// load reads the configuration; nil if the user requested help.
func load(args []string, std IO, warn func(string)) (*config.Config, int) {
	return loadFlags(flag.NewFlagSet("emco", flag.ContinueOnError), args, std, warn)
}

// loadWith reads the configuration of a command that has flags of its own.
func loadWith(args []string, std IO, add func(flags)) (*config.Config, int) {
	fs := flag.NewFlagSet("emco", flag.ContinueOnError)
	add(fs)
	return loadFlags(fs, args, std, warnTo(std.Err))
}

func loadFlags(fs *flag.FlagSet, args []string, std IO, warn func(string)) (*config.Config, int) {
	fs.SetOutput(io.Discard) // the error would disappear in the full help
	c, err := config.Load(fs, args, os.Environ(), warn)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(std.Out)
		_, _ = io.WriteString(std.Out, usage)
		fs.PrintDefaults()
		_, _ = io.WriteString(std.Out, "\nSettings that only the configuration file has:\n\n"+config.FileSettings())
		return nil, exitOK
	case err != nil:
		_, _ = fmt.Fprintf(std.Err, "emco: %v\nsee emco -help\n", err)
		return nil, exitUsage
	}
	return &c, exitOK
}

// serve runs the services until SIGINT or SIGTERM, or SIGHUP of a terminal that closes, unless nohup has it ignored. A second
// SIGINT ends the process at once; a second SIGTERM does not, because tools that signal a process group may send two.
func serve(c config.Config, warnings []string, std IO, opts []Option) int {
	log := NewLogger(c.Log)
	logs.CaptureLibraries(log)
	for _, text := range warnings {
		log.Warn(text)
	}
	stops := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		stops = append(stops, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), stops...)
	defer stop()
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt) })
	faults, err := failpoints()
	if err == nil {
		err = runWith(ctx, c, log, append(faults, opts...))
	}
	if err != nil {
		_, _ = fmt.Fprintln(std.Err, "emco:", err)
		return exitFailed
	}
	return exitOK
}

// runWith runs the services until ctx ends. A start that still waits then ends well, like a process that serves.
func runWith(ctx context.Context, c config.Config, log *slog.Logger, opts []Option) error {
	a, err := New(ctx, c, log, opts...)
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errs.Is(err, errs.Unavailable)) {
		log.Info("emco was asked to stop before it serves")
		return nil
	}
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

func printVersion(w io.Writer) int {
	if err := version.Print(w, "emco"); err != nil {
		return exitFailed
	}
	return exitOK
}
