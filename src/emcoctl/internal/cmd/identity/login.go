package identity

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/rest"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/logins"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/signin"
)

// loginFlags set how a person signs in.
type loginFlags struct {
	issuer, issuerCA string
	browser, device  bool
	port             int
	shared           bool // the audience is one of a sign-in at another server
}

func newLoginCommand(s *session.Session) *cobra.Command {
	var f loginFlags
	c := &cobra.Command{
		Use: "login", Short: "Sign in at the server, with a browser",
		Long: `Login signs you in with an OpenID Connect provider of the server. It opens a browser. Without
one it prints a page and a code, which you can enter on another device; --browser prints the
address for a browser on this machine instead. The token is in a file that only you can read,
next to the file of contexts, for this server only. Commands renew it; emcoctl logout ends it.
The server names the provider, the client and the audience of the token; login shows them first.`,
		Example: "  emcoctl login\n  emcoctl login --context prod --device\n  emcoctl login --server https://emco.example --issuer corp",
		Args:    cobra.NoArgs,
	}
	c.Flags().StringVar(&f.issuer, "issuer", "", "name of the provider, if the server has several")
	c.Flags().StringVar(&f.issuerCA, "issuer-ca-file", "", "PEM certificates to trust for https to the provider")
	c.Flags().BoolVar(&f.browser, "browser", false, "sign in with a browser on this machine")
	c.Flags().BoolVar(&f.device, "device", false, "sign in with a browser on another device, by a code")
	c.Flags().IntVar(&f.port, "port", 0, "port of 127.0.0.1 where the browser returns, if the provider knows only one; 0 is any")
	c.Flags().BoolVar(&f.shared, "allow-shared-audience", false, "sign in although a sign-in at another server has the same audience: each server could use your token at the other")
	c.MarkFlagsMutuallyExclusive("browser", "device")
	c.RunE = s.Run(func(c *cobra.Command, _ []string) error { return runLogin(c.Context(), s, f) })
	return c
}

func runLogin(ctx context.Context, s *session.Session, f loginFlags) error {
	form, err := s.FormatOfOwnCommands()
	if err != nil {
		return err
	}
	place, err := s.Place()
	if err != nil {
		return err
	}
	if !signin.Private(place.Server) {
		return errs.New(errs.Invalid, place.Server+": others could read the token on its way; sign in at an address with https://")
	}
	issuer, err := chooseIssuer(ctx, place, f)
	if err != nil {
		return err
	}
	output.Fields(s.Sys.Err, [2]string{"server", place.Server}, [2]string{"issuer", issuer.Name + " " + issuer.URL},
		[2]string{"client", issuer.Client}, [2]string{"audience", issuer.Audience})
	if err := checkAudience(s.Logins(), place.Server, issuer.Audience, f.shared); err != nil {
		return err
	}
	provider, err := signin.Discover(ctx, issuer)
	if err != nil {
		return err
	}
	grant, err := signIn(ctx, s, provider, f)
	if err != nil {
		return err
	}
	c, err := place.Client(grant.Token)
	if err != nil {
		return err
	}
	var who v2.WhoAmI
	text, err := fetch.Document(ctx, c, "auth/whoami", &who)
	if err != nil {
		return err
	}
	if err := s.Logins().Save(ctx, logins.Login{Server: place.Server, User: place.User, Issuer: issuer, Grant: grant}); err != nil {
		return err
	}
	if form != output.Human {
		return output.Encode(s.Sys.Out, form, text)
	}
	fmt.Fprintf(s.Sys.Out, "signed in at %s as %s\n", place.Server, printable.Line(who.Subject))
	if grant.Refresh == "" {
		fmt.Fprintf(s.Sys.Err, "note: it ends at %s, because the provider gives no refresh token\n", printable.Time(grant.Ends))
	}
	return nil
}

// checkAudience refuses a server whose tokens another server accepts, too: it could use the token there. A server may lie
// about its audience.
func checkAudience(all logins.Store, server, audience string, shared bool) error {
	other, err := all.OtherServer(server, audience)
	if err != nil || other == "" || shared {
		return err
	}
	return errs.New(errs.Invalid, fmt.Sprintf("%s asks for a token for the audience %s, which your sign-in at %s has: it could use your token there. If you trust both servers with it, add --allow-shared-audience",
		server, printable.Line(audience), printable.Line(other)))
}

// chooseIssuer asks the server where people sign in, and selects one.
func chooseIssuer(ctx context.Context, place session.Place, f loginFlags) (signin.Issuer, error) {
	c, err := place.Client("")
	if err != nil {
		return signin.Issuer{}, err
	}
	all, err := rest.Issuers.Get(ctx, c, nil)
	if err != nil {
		return signin.Issuer{}, err
	}
	all = slices.DeleteFunc(all, func(i v2.SignIn) bool { return i.Client == "" })
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	known := printable.Line(strings.Join(names, ", "))
	if who, err := rest.WhoAmI.Get(ctx, c, nil); err == nil && who.Via == "off" {
		return signin.Issuer{}, errs.New(errs.Invalid, place.Server+" has auth.mode off: all callers may do everything, without a sign-in")
	}
	at := slices.IndexFunc(all, func(i v2.SignIn) bool { return i.Name == f.issuer })
	switch {
	case len(all) == 0:
		return signin.Issuer{}, errs.New(errs.Invalid, place.Server+" has no provider for emcoctl: none of its auth.issuers has a client. Give a token with -t or $EMCO_TOKEN")
	case f.issuer != "" && at < 0:
		return signin.Issuer{}, session.Usagef("%s has no provider %s; there are %s", place.Server, f.issuer, known)
	case f.issuer == "" && len(all) > 1:
		return signin.Issuer{}, session.Usagef("%s has several providers; choose one with --issuer: %s", place.Server, known)
	}
	chosen := all[max(at, 0)]
	return signin.Issuer{Name: chosen.Name, URL: chosen.URL, Client: chosen.Client, Audience: chosen.Audience, CAFile: f.issuerCA}, nil
}

// signIn has the person sign in, by the way that the flags and the machine allow.
func signIn(ctx context.Context, s *session.Session, p *signin.Provider, f loginFlags) (signin.Grant, error) {
	if f.device || !f.browser && (s.Sys.Browser == nil || !p.HasBrowser()) && p.HasDevice() {
		return p.Device(ctx, func(v signin.Verification) {
			fmt.Fprintf(s.Sys.Err, "Open %s in any browser, and enter the code %s\n", printable.Line(cmp.Or(v.Complete, v.URL)), printable.Line(v.Code))
		})
	}
	return p.Browser(ctx, f.port, func(page string) {
		fmt.Fprintf(s.Sys.Err, "Sign in on this page, in a browser on this machine:\n%s\n", page)
		if s.Sys.Browser == nil {
			return
		}
		if err := s.Sys.Browser(page); err != nil {
			fmt.Fprintf(s.Sys.Err, "note: the browser does not start: %v\n", err)
		}
	})
}

// revokeTime bounds the wait for a provider when a person signs out.
const revokeTime = 15 * time.Second

func newLogoutCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Forget the sign-in at the server",
		Long: `Logout removes the file of emcoctl login for the server, and ends the sign-in at the provider if
that offers it. A token that was copied is valid until its end.`,
		Args: cobra.NoArgs,
		RunE: s.Run(func(c *cobra.Command, _ []string) error { return runLogout(c.Context(), s) }),
	}
}

func runLogout(ctx context.Context, s *session.Session) error {
	place, err := s.Place()
	if err != nil {
		return err
	}
	former, err := s.Logins().Remove(ctx, place.Server, place.User)
	if errs.Is(err, errs.NotFound) {
		fmt.Fprintln(s.Sys.Out, "you are not signed in at", place.Server)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(s.Sys.Out, "signed out of", place.Server)
	if former.Refresh == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, revokeTime)
	defer cancel()
	provider, err := signin.Discover(ctx, former.Issuer)
	if err == nil {
		err = provider.Revoke(ctx, former.Refresh)
	}
	if err != nil {
		fmt.Fprintf(s.Sys.Err, "note: the file is removed, but the provider may keep the sign-in: %s\n", printable.Line(err.Error()))
	}
	return nil
}

func newWhoamiCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Show your subject and groups at the server", Args: cobra.NoArgs,
		Example: "  emcoctl auth whoami\n  emcoctl auth whoami -o jsonpath='{.subject}'",
		RunE: s.Run(func(c *cobra.Command, _ []string) error {
			form, server, err := s.Open(anyPath)
			if err != nil {
				return err
			}
			return fetch.Show(c.Context(), server, "auth/whoami", s.Sys.Out, form, showCaller)
		}),
	}
}

func showCaller(w io.Writer, who v2.WhoAmI) {
	until := ""
	if !who.Until.IsZero() {
		until = printable.Time(who.Until)
	}
	output.Fields(w, [2]string{"subject", who.Subject}, [2]string{"uid", who.UID}, [2]string{"groups", strings.Join(who.Groups, " ")}, [2]string{"via", who.Via}, [2]string{"until", until})
}
