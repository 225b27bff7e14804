package budget

import (
	"net"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
)

// Rates are the limits of a server. Zero is unlimited.
type Rates struct {
	CallsMinute, CallsHour     int // of a credential
	PointsMinute               int
	ContentMinute, ContentHour int
	PushesMinute, ReadsSecond  int // of a repository
}

// GitHub is 60 % of what GitHub grants a credential, so that people and other programs that use it
// have some left: 5,000 calls an hour, 900 points a minute, 80 calls that make content a minute and
// 500 an hour; and 15 reads a second of a repository. Pushes are all of the 6 a minute that a
// repository takes: one window of ten seconds each.
func GitHub() Rates {
	return Rates{CallsHour: 3000, PointsMinute: 540, ContentMinute: 48, ContentHour: 300, PushesMinute: 6, ReadsSecond: 9}
}

// GitLab is 60 % of the 2,000 calls a minute that gitlab.com grants a user. It limits neither
// content nor pushes.
func GitLab() Rates { return Rates{CallsMinute: 1200} }

// Published returns the rates of a repository's server: those of GitHub or GitLab for repositories
// that use their APIs or are hosted by them; none for others.
func Published(r git.Repo) Rates {
	return Presets{"github": GitHub(), "gitlab": GitLab()}.Of(r)
}

// Presets are rates by provider.
type Presets map[string]Rates

// Of returns the rates of a repository's server.
func (p Presets) Of(r git.Repo) Rates { return p[ProviderOf(r)] }

// ProviderOf returns the provider whose limits apply to a repository: "github", "gitlab" or ""; the
// one whose API it uses, or else the one that hosts it.
func ProviderOf(r git.Repo) string {
	switch r.Provider {
	case "github", "gitlab":
		return r.Provider
	}
	host := serverOf(r.URL)
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	switch host {
	case "github.com", "ssh.github.com", "www.github.com":
		return "github"
	case "gitlab.com", "altssh.gitlab.com", "www.gitlab.com":
		return "gitlab"
	}
	return ""
}

// rateBound is one limit within a period.
type rateBound struct {
	name   string // among those of a gate
	costOf func(git.Cost) int
	limit  int
	period time.Duration
}

func (r Rates) credential() []rateBound {
	calls := func(c git.Cost) int { return c.Calls }
	content := func(c git.Cost) int { return c.Content }
	return []rateBound{
		{"callsMinute", calls, r.CallsMinute, time.Minute},
		{"callsHour", calls, r.CallsHour, time.Hour},
		{"pointsMinute", func(c git.Cost) int { return c.Points }, r.PointsMinute, time.Minute},
		{"contentMinute", content, r.ContentMinute, time.Minute},
		{"contentHour", content, r.ContentHour, time.Hour},
	}
}

func (r Rates) repository() []rateBound {
	return []rateBound{
		{"pushesMinute", func(c git.Cost) int { return c.Pushes }, r.PushesMinute, time.Minute},
		{"readsSecond", func(c git.Cost) int { return c.Reads }, r.ReadsSecond, time.Second},
	}
}
