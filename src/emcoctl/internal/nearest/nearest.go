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

// distance is the number of letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
