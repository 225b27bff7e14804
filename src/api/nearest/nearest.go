// Package nearest finds the name that a user probably meant.
package nearest

import "strings"

// To returns the candidate that is closest to word, in any letter case, if at most a third
// of the word's letters differ. Of equally close candidates it returns the first.
func To(word string, candidates []string) (string, bool) {
	best, limit := "", max(len(word)/3, 1)+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < limit {
			best, limit = c, d
		}
	}
	return best, best != ""
}

// distance is the number of letters to insert, delete or replace, and of neighbours to swap.
func distance(a, b string) int {
	var earlier []int // the row before last
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], earlier[j-1]+1)
			}
		}
		earlier, last = last, row
	}
	return last[len(b)]
}
