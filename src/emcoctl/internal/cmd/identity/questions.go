package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// ErrNo is the answer no of can-i. It is printed already.
var ErrNo = errors.New("no")

// what is the help of the arguments of questions.
const what = `VERB is get, list, create, update, delete or reveal, or an action such as approve. WHAT is a path,
or a deployment in short; or a type, with PLACE: projects/NAME or cluster-providers/NAME,
everywhere without one.`

func newCanICommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "can-i VERB WHAT [PLACE]", Short: "Ask whether you may do something, and why",
		Long:    "Can-i prints yes or no, and why. The exit code is 5 for no. " + what,
		Example: "  emcoctl auth can-i approve shop/till/v1/autumn\n  emcoctl auth can-i create projects\n  emcoctl auth can-i delete composite-apps projects/shop",
		Args:    cobra.RangeArgs(2, 3),
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			answer, err := ask(c.Context(), s, "auth/can-i", args, func(a v2.AccessAnswer) {
				word := map[bool]string{true: "yes", false: "no"}[a.Allowed]
				fmt.Fprintf(s.Sys.Out, "%s: %s\n", word, printable.Line(a.Because))
			})
			if err == nil && !answer.Allowed {
				err = ErrNo
			}
			return err
		}),
	}
}

func newWhoCanCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "who-can VERB WHAT [PLACE]", Short: "List who may do something",
		Long:    "Who-can lists the subjects that may do something, and the bindings that allow it. You must be allowed to\nlist the bindings there. " + what,
		Example: "  emcoctl auth who-can approve shop/till/v1/autumn\n  emcoctl auth who-can create clusters cluster-providers/edge",
		Args:    cobra.RangeArgs(2, 3),
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			_, err := ask(c.Context(), s, "auth/who-can", args, func(a v2.Holders) {
				if len(a.Items) == 0 {
					fmt.Fprintln(s.Sys.Out, "none: no binding allows it")
					return
				}
				t := output.NewTable(s.Sys.Out)
				t.Row("SUBJECT", "ROLE", "BY")
				for _, h := range a.Items {
					t.Row(h.Subject, h.Role, h.Binding)
				}
				t.Flush()
				if a.Items[0].Subject == v2.Everyone {
					fmt.Fprintln(s.Sys.Err, "note: identity is off (auth.mode): everyone who reaches the server may do everything, which on loopback is everyone on its machine")
				}
			})
			return err
		}),
	}
}

// ask sends a question, and shows the answer: to people by show.
func ask[T any](ctx context.Context, s *session.Session, path string, args []string, show func(T)) (answer T, err error) {
	q, err := question(args)
	if err != nil {
		return answer, err
	}
	form, server, err := s.Open(anyPath)
	if err != nil {
		return answer, err
	}
	text, err := client.Post[json.RawMessage](ctx, server, path, q)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, errs.E(errs.Malformed, "decode", "answer", err)
	}
	if form != output.Human {
		return answer, output.Encode(s.Sys.Out, form, text)
	}
	show(answer)
	return answer, nil
}

// actions are those that a role can allow, besides update, which is a verb too. The form act:NAME asks for others, of a
// server that has more.
func actions() []string {
	all := append(anchor.Actions(), "adopt", "deliver", "issue", "move", "restore") // files ask for none of these
	all = slices.DeleteFunc(all, func(name string) bool { return name == "update" })
	slices.Sort(all)
	return all
}

// question reads the arguments of a question.
func question(args []string) (v2.Access, error) {
	verb, what := args[0], args[1]
	methods := map[string]string{"get": http.MethodGet, "list": http.MethodGet, "create": http.MethodPost, "update": http.MethodPut, "delete": http.MethodDelete}
	method, action := methods[verb], methods[verb] == "" && verb != "reveal"
	if action && !strings.HasPrefix(verb, "act:") && !slices.Contains(actions(), verb) {
		return v2.Access{}, session.Usagef("%q is no verb and no action; verbs are get, list, create, update, delete and reveal, actions are %s", verb, strings.Join(actions(), ", "))
	}
	if !strings.Contains(strings.Trim(what, "/"), "/") {
		q := v2.Access{Verb: verb, Type: what}
		if k, ok := kind.Named(what); ok {
			q.Type = k.Collection
		}
		if len(args) > 2 {
			q.Place = strings.Trim(args[2], "/")
		}
		if action && !strings.HasPrefix(verb, "act:") {
			q.Verb = "act:" + verb
		}
		return q, nil
	}
	if len(args) > 2 {
		return v2.Access{}, session.Usagef("%s is a path, which has a place already; leave %s out", what, args[2])
	}
	path := "/" + pathOf(strings.Trim(what, "/"))
	switch {
	case verb == "reveal":
		return v2.Access{}, session.Usagef("reveal needs a type and a place, such as: reveal cluster-references projects/shop")
	case action:
		method, path = http.MethodPost, path+"/"+verb
	case verb == "create" && !anchor.IsCollection(path[1:]): // POST goes to the collection
		of := "/" + anchor.Collection(path[1:])
		path = path[:strings.LastIndex(path, of+"/")+len(of)]
	}
	return v2.Access{Method: method, Path: "/v2" + path}, nil
}

// pathOf returns a path with the full names of its collections, or that of a deployment in short.
func pathOf(what string) string {
	first, _, _ := strings.Cut(what, "/")
	if k, ok := kind.Of(first); ok && slices.Contains(k.Parents, "") {
		return kind.Expand(what)
	}
	return anchor.Expand(what)
}
