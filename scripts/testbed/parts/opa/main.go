// Command opa serves Open Policy Agent's API over policies in memory, which its clients upload:
//
//	opa ADDRESS
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/open-policy-agent/opa/v1/plugins"
	"github.com/open-policy-agent/opa/v1/server"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "opa:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("call it as: opa ADDRESS")
	}
	store := inmem.New()
	manager, err := plugins.New(nil, "testbed", store)
	if err != nil {
		return err
	}
	if err := manager.Start(ctx); err != nil {
		return err
	}
	s, err := server.New().WithStore(store).WithManager(manager).WithAddresses([]string{args[0]}).Init(ctx)
	if err != nil {
		return err
	}
	loops, err := s.Listeners()
	if err != nil {
		return err
	}
	ended := make(chan error, len(loops))
	for _, loop := range loops {
		go func() { ended <- loop() }()
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return s.Shutdown(context.WithoutCancel(ctx))
	}
}
