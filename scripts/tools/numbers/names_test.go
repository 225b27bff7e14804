package main

import "testing"

func TestVagueNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"desk": true, "writer": false, "revisionCache": false, "album": true, "httpClient": false} {
		if got := vague(name); got != want {
			t.Errorf("vague(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestWordsOfNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"desk": 1, "revisionCache": 2, "gitHTTPServer": 3, "httpClient": 2, "": 0} {
		if got := wordsOf(name); got != want {
			t.Errorf("wordsOf(%q) = %d, want %d", name, got, want)
		}
	}
}
