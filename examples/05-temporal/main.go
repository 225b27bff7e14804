// Command temporal is a worker with one workflow, backup, which copies a database, a file here.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func main() {
	address := flag.String("address", "127.0.0.1:7233", "of Temporal's frontend")
	queue := flag.String("queue", "backups", "task queue that the worker listens to")
	var f folders
	flag.StringVar(&f.Data, "data", ".", "folder of the databases")
	flag.StringVar(&f.Backups, "backups", "backups", "folder that gets a copy for each workflow")
	flag.Parse()
	if err := serve(*address, *queue, f); err != nil {
		log.Fatal(err)
	}
}

func serve(address, queue string, f folders) error {
	if err := os.MkdirAll(f.Backups, 0o700); err != nil {
		return err
	}
	c, err := client.Dial(client.Options{HostPort: address})
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(backup, workflow.RegisterOptions{Name: "backup"})
	w.RegisterActivityWithOptions(f.dump, activity.RegisterOptions{Name: "dump"})
	return w.Run(worker.InterruptCh())
}

// params are the workflowParams of an intent.
type params struct {
	Activities struct {
		Dump dumpParams `json:"dump"`
	} `json:"activityParams"`
}

type dumpParams struct {
	Database string `json:"database"`
}

// backup returns the path of the copy.
func backup(ctx workflow.Context, p params) (copied string, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	err = workflow.ExecuteActivity(ctx, "dump", p.Activities.Dump).Get(ctx, &copied)
	return copied, err
}

// folders hold the databases and their copies.
type folders struct{ Data, Backups string }

// dump copies a database. It may run more than once for one workflow: the copy has the workflow's name, and is made once.
func (f folders) dump(ctx context.Context, p dumpParams) (string, error) {
	if !filepath.IsLocal(p.Database) || filepath.Base(p.Database) != p.Database {
		return "", temporal.NewNonRetryableApplicationError(fmt.Sprintf("%q is no name of a database", p.Database), "name", nil)
	}
	text, err := os.ReadFile(filepath.Join(f.Data, p.Database))
	if errors.Is(err, fs.ErrNotExist) {
		return "", temporal.NewNonRetryableApplicationError("there is no database "+p.Database, "missing", err)
	}
	if err != nil {
		return "", err // Temporal tries again
	}
	id := activity.GetInfo(ctx).WorkflowExecution.ID
	at := filepath.Join(f.Backups, p.Database+"."+path.Base(id))
	part := at + ".part"
	if err := os.WriteFile(part, text, 0o600); err != nil {
		return "", err
	}
	switch err := os.Link(part, at); {
	case err == nil:
		fmt.Println("copied", id)
	case !errors.Is(err, fs.ErrExist):
		return "", err
	}
	return at, os.Remove(part)
}
