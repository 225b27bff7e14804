package agent

import (
	"fmt"
	"log/slog"
	"os"
	"time"
)

// aliveFor is how old the file of a monitor that is alive may be: longer than one report
// to a server that hangs may take.
const aliveFor = 5 * time.Minute

// touch says that all goes on. Where the file cannot be written, a probe will tell.
func touch(file string, log *slog.Logger) {
	if file == "" {
		return
	}
	if err := os.WriteFile(file, []byte(time.Now().UTC().Format(time.RFC3339)+"\n"), 0o600); err != nil {
		log.Debug("the file that says that the monitor is alive cannot be written", "err", err)
	}
}

// Alive says whether the monitor that touches the file is alive.
func Alive(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if age := time.Since(info.ModTime()); age > aliveFor {
		return fmt.Errorf("%s was touched %s ago", file, age.Round(time.Second))
	}
	return nil
}
