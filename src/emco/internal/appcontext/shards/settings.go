package shards

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Settings compares settings that all processes need alike with those that the others announce. A process that differs is no
// error, because settings change in one process after the other: it is logged, and in State. Level has it.
type Settings struct {
	holder string
	own    map[string]string // values by name
	log    *slog.Logger

	mu      sync.Mutex
	others  int                 // processes that announce settings; guarded by mu
	differs []settingDifference // by name of the setting; guarded by mu
}

// settingDifference is a setting with another value in other processes.
type settingDifference struct {
	setting string
	process string // the first of those processes, by name
	theirs  string // its value
	more    int    // further ones
}

// compare notes the settings of all processes, by process. Those of older versions announce none.
func (s *Settings) compare(all map[string]map[string]string) {
	found, others := map[string]settingDifference{}, 0
	for _, process := range slices.Sorted(maps.Keys(all)) {
		if process == s.holder || all[process] == nil {
			continue
		}
		others++
		for setting, ours := range s.own {
			theirs, announced := all[process][setting]
			if !announced || theirs == ours {
				continue
			}
			d, again := found[setting]
			if d.more++; !again {
				d = settingDifference{setting: setting, process: process, theirs: theirs}
			}
			found[setting] = d
		}
	}
	now := slices.SortedFunc(maps.Values(found), func(a, b settingDifference) int { return cmp.Compare(a.setting, b.setting) })
	s.mu.Lock()
	before := s.differs
	s.others, s.differs = others, now
	s.mu.Unlock()
	for _, d := range now {
		if !slices.ContainsFunc(before, func(b settingDifference) bool { return b.setting == d.setting }) {
			s.log.Warn("a setting differs from that of another process; give all processes the same one", "setting", d.setting, "here", s.own[d.setting], "process", d.process, "there", d.theirs, "more", d.more)
		}
	}
	if len(before) > 0 && len(now) == 0 {
		s.log.Info("the settings of all processes agree again")
	}
}

// Differing returns the number of settings that differ from those of another process.
func (s *Settings) Differing() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.differs)
}

// Name is "settings".
func (s *Settings) Name() string { return "settings" }

// Ready returns nil: otherwise a change of a setting, in one process after the other, would not get past the first one.
func (s *Settings) Ready() error { return nil }

// Run waits until ctx ends: the level looks at the processes.
func (s *Settings) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// State names the settings that differ and a process where they do, and not their values, which everyone who reaches /readyz would read.
func (s *Settings) State() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.differs) == 0 {
		return fmt.Sprintf("those of %d other processes agree", s.others)
	}
	var all []string
	for _, d := range s.differs {
		text := d.setting + " in " + d.process
		if d.more > 0 {
			text += fmt.Sprintf(" and %d more", d.more)
		}
		all = append(all, text)
	}
	return "these differ: " + strings.Join(all, ", ") + "; give all processes the same"
}
