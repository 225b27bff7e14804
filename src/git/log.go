package git

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// LogReader is a Host that lists commits.
type LogReader interface {
	// Since returns the commits in the history of commit, itself included, that are not in the
	// history of base; an empty base has no history. It returns NotFound if the server does not
	// hand out the commit, TooLarge if there are too many.
	Since(ctx context.Context, r Repo, commit, base Hash) (Log, error)
}

// LatestReader is a Host that lists the newest commits of a history.
type LatestReader interface {
	// Latest returns the newest commits in the history of commit, itself first: at most n, each before its
	// parents. It returns NotFound if the server does not hand out the commit, TooLarge if n commits are more
	// than one exchange may bring.
	Latest(ctx context.Context, r Repo, commit Hash, n int) ([]Commit, error)
}

// Log lists the commits since a base.
type Log struct {
	Grown   bool     // the history holds the base, or there was no base
	Commits []Commit // newest first: parents come after their children
}

// NewLog puts commits that were found in order, from the newest on: each after all of its
// children. Those that the newest has not in its history are left out. The log has grown
// if one of them comes right after base, or if there is no base.
func NewLog(newest, base Hash, found map[Hash]Commit) Log {
	log := Log{Grown: base == ""}
	children := map[Hash]int{}
	for _, c := range found {
		for _, p := range c.Parents {
			children[p]++
			log.Grown = log.Grown || p == base
		}
	}
	ready := []Hash{newest}
	for len(ready) > 0 {
		c, known := found[ready[0]]
		ready = ready[1:]
		if !known {
			continue
		}
		log.Commits = append(log.Commits, c)
		for _, p := range c.Parents {
			if children[p]--; children[p] == 0 {
				ready = append(ready, p)
			}
		}
	}
	return log
}

// Commit is a commit as a log shows it.
type Commit struct {
	ID      Hash
	Parents []Hash
	Message string
	Author  string    // "Name <mail>"
	When    time.Time // when it was committed, in UTC; zero if the commit does not say
	Signed  bool      // it has a signature, which this program does not check
}

// Trailer returns the value of the last trailer with a key, "" without one.
func (c Commit) Trailer(key string) (value string) {
	_, last, ok := cutLast(strings.TrimRight(c.Message, "\n"), "\n\n")
	if !ok {
		return "" // a title alone has no trailers
	}
	for line := range strings.Lines(last) {
		k, v, ok := strings.Cut(line, ":")
		if ok && strings.EqualFold(k, key) {
			value = strings.TrimSpace(v)
		}
	}
	return value
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// ReadCommit parses a commit object. Content of another kind has no parents.
func ReadCommit(id Hash, object []byte) Commit {
	head, message, _ := strings.Cut(string(object), "\n\n")
	c := Commit{ID: id, Message: message}
	for line := range strings.Lines(head) {
		if who, ok := strings.CutPrefix(line, "author "); ok {
			name, _, _ := strings.Cut(who, ">")
			c.Author = name + ">"
		}
		if who, ok := strings.CutPrefix(line, "committer "); ok {
			c.When = momentOf(who)
		}
		c.Signed = c.Signed || strings.HasPrefix(line, "gpgsig")
		if parent, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "parent "); ok && len(parent) == 40 {
			c.Parents = append(c.Parents, Hash(strings.Clone(parent))) // who keeps it does not keep the message
		}
	}
	return c
}

// momentOf returns the time of "Name <mail> seconds zone".
func momentOf(who string) time.Time {
	_, at, _ := strings.Cut(who, "> ")
	seconds, _, _ := strings.Cut(at, " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}
