// Package all lists the drivers for documents.
package all

import (
	"io"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

// Driver is an open driver; the caller of its opener closes it.
type Driver interface {
	store.Driver
	io.Closer
}

// Opener opens the store at a place: a path, or the address of a server.
type Opener func(place string) (Driver, error)

// Drivers returns the openers by the name that the configuration uses.
func Drivers() map[string]Opener {
	return map[string]Opener{
		"sqlite": func(path string) (Driver, error) { return open(sqlite.Open(path)) },
	}
}

// open keeps a nil of a driver's own type from looking like a driver.
func open[D Driver](d D, err error) (Driver, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}
