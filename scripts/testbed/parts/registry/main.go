// Command registry serves the registry of the CNCF distribution over a folder, to one user
// whose name and password are in REGISTRY_USER and REGISTRY_PASSWORD:
//
//	registry ADDRESS FOLDER
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"             // logs in by a file
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem" // keeps what is pushed
	"golang.org/x/crypto/bcrypt"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
}

// serve ends by itself at SIGTERM, which the registry waits for.
func serve(args []string) error {
	if len(args) != 2 {
		return errors.New("call it as: registry ADDRESS FOLDER")
	}
	address, dir := args[0], args[1]
	users := filepath.Join(dir, "htpasswd")
	hash, err := bcrypt.GenerateFromPassword([]byte(os.Getenv("REGISTRY_PASSWORD")), bcrypt.MinCost)
	if err != nil {
		return err
	}
	if err := os.WriteFile(users, fmt.Appendf(nil, "%s:%s\n", os.Getenv("REGISTRY_USER"), hash), 0o600); err != nil {
		return err
	}
	r, err := registry.NewRegistry(context.Background(), config(address, users, filepath.Join(dir, "data")))
	if err != nil {
		return err
	}
	return r.ListenAndServe()
}

func config(address, users, data string) *configuration.Configuration {
	c := &configuration.Configuration{
		Storage: configuration.Storage{"filesystem": {"rootdirectory": data}},
		Auth:    configuration.Auth{"htpasswd": {"realm": "testbed", "path": users}},
	}
	c.Log.Level = "warn"
	c.Log.AccessLog.Disabled = true
	c.HTTP.Addr, c.HTTP.Secret = address, rand.Text()
	return c
}
