package agent

import (
	"fmt"
	"log/slog"
	"os"
	"time"
)

// maxAge is the maximum age of the file of a monitor that is alive. It is longer than one
// report to a server that hangs may take.
const maxAge = 5 * time.Minute

// touchAliveFile records that the monitor works. If the file cannot be written, the probe will fail.
func touchAliveFile(file string, log *slog.Logger) {
	if file == "" {
		return
	}
	if err := os.WriteFile(file, []byte(time.Now().UTC().Format(time.RFC3339)+"\n"), 0o600); err != nil {
		log.Debug("cannot touch the alive file", "err", err)
	}
}

// CheckAlive returns an error unless the monitor that touches the file is alive.
func CheckAlive(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if age := time.Since(info.ModTime()); age > maxAge {
		return fmt.Errorf("%s was touched %s ago", file, age.Round(time.Second))
	}
	return nil
}
