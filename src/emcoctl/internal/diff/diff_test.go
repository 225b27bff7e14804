package diff_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/diff"
)

var names = diff.Names{Before: "old", After: "new"}

func TestUnified(t *testing.T) {
	t.Parallel()
	long := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n"
	for _, tt := range []struct{ name, before, after, want string }{
		{"equal texts", "a\nb\n", "a\nb\n", ""},
		{"nothing before", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"nothing after", "a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		{"a line that changes", "a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"no newline at the end", "a\nb", "a\nc", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
		{"a line that moves", "a\nb\nc\n", "b\nc\na\n", "@@ -1,3 +1,3 @@\n-a\n b\n c\n+a\n"},
		{"two places far apart", long, strings.Replace(strings.Replace(long, "2\n", "x\n", 1), "15\n", "y\n", 1), "@@ -1,5 +1,5 @@\n 1\n-2\n+x\n 3\n 4\n 5\n@@ -12,5 +12,5 @@\n 12\n 13\n 14\n-15\n+y\n 16\n"},
		{"two places close together", long, strings.Replace(strings.Replace(long, "4\n", "x\n", 1), "9\n", "", 1), "@@ -1,12 +1,11 @@\n 1\n 2\n 3\n-4\n+x\n 5\n 6\n 7\n 8\n-9\n 10\n 11\n 12\n"},
	} {
		got := diff.Unified(names, tt.before, tt.after)
		if want := tt.want; want != "" && got != "--- old\n+++ new\n"+want || want == "" && got != "" {
			t.Errorf("%s: got\n%swant\n%s", tt.name, got, want)
		}
	}
}

// What is shown leads from one text to the other, whatever they are.
func TestADiffCanBeApplied(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		before := random(r, r.IntN(60))
		after := edited(r, before)
		checkApplies(t, before, after)
	}
	r := rand.New(rand.NewPCG(7, 7))
	large := make([]string, 3000) // above the table
	for i := range large {
		large[i] = fmt.Sprint("line ", i%2500)
	}
	checkApplies(t, large, edited(r, edited(r, large)))
	checkApplies(t, strings.Split(strings.Repeat("x ", 2000), " "), strings.Split(strings.Repeat("y ", 2000), " "))
}

func random(r *rand.Rand, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = string(rune('a' + r.IntN(8)))
	}
	return out
}

// edited takes some lines away, adds some, and changes some.
func edited(r *rand.Rand, text []string) (out []string) {
	for _, line := range text {
		switch r.IntN(8) {
		case 0:
		case 1:
			out = append(out, line, "new")
		case 2:
			out = append(out, "other")
		default:
			out = append(out, line)
		}
	}
	return out
}

func checkApplies(t *testing.T, before, after []string) {
	t.Helper()
	text := diff.Unified(names, joined(before), joined(after))
	var got []string
	at := 0
	for _, line := range strings.Split(text, "\n")[min(2, strings.Count(text, "\n")):] {
		switch {
		case strings.HasPrefix(line, "@@ "):
			var first, n int
			head := strings.Fields(line)[1]
			if _, err := fmt.Sscanf(head, "-%d,%d", &first, &n); err != nil {
				first, n = atoi(t, head), 1
			}
			if n > 0 {
				first--
			}
			got, at = append(got, before[at:first]...), first
		case strings.HasPrefix(line, "+"):
			got = append(got, line[1:])
		case line != "":
			if before[at] != line[1:] {
				t.Fatalf("line %d is %q, not %q, in\n%s", at, before[at], line[1:], text)
			}
			if line[0] == ' ' {
				got = append(got, line[1:])
			}
			at++
		}
	}
	got = append(got, before[at:]...)
	if joined(got) != joined(after) {
		t.Fatalf("from %q the diff leads to %q, want %q:\n%s", before, got, after, text)
	}
}

func atoi(t *testing.T, head string) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(head, "-%d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func joined(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
