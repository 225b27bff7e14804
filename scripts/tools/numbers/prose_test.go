package main

import "testing"

func TestPhrasesAreCountedOutsideOfCode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"The writer commits what the queue holds.":       0,
		"Of which it is said that nobody shall tell it.": 5,
		"Run `emco say hello` and read the wish.":        1,
		"```\nshall anew\n```\nIt retries.":              0,
		"saying and shallow are other words":             0,
	} {
		var p proseStats
		p.add(text)
		if p.phrases != want {
			t.Errorf("%q has %d phrases, want %d", text, p.phrases, want)
		}
	}
}
