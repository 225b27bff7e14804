package program

import (
	"os"
	"path/filepath"
	"strings"
)

// LogPath returns the path of emco's log, given the folder of Options.
func LogPath(dir string) string { return filepath.Join(dir, "emco.log") }

// Tail returns the last lines of the log, without those of answered requests.
func Tail(dir string, lines int) string {
	text, err := os.ReadFile(LogPath(dir))
	if err != nil {
		return err.Error()
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, `"msg":"request"`) || strings.Contains(line, `"status":5`) {
			all = append(all, line)
		}
	}
	return strings.Join(all[max(0, len(all)-lines):], "")
}
