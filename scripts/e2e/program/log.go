package program

import (
	"os"
	"path/filepath"
	"strings"
)

// LogPath returns where emco's log is, given the folder of Options.
func LogPath(dir string) string { return filepath.Join(dir, "emco.log") }

// Tail returns the last lines of the log.
func Tail(dir string, lines int) string {
	text, err := os.ReadFile(LogPath(dir))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
