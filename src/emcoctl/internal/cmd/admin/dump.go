package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/jsontree"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// maxDumped bounds the documents of a dump.
const maxDumped = 100_000

// newDumpCommand returns the command that prints all documents.
func newDumpCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "dump [ANCHOR]", Short: "Print all documents without secrets, for support",
		Long: `Dump prints the documents of the server as YAML, in the form of emcoctl apply, with parents
first; with an anchor, such as projects/shop, only what is there and below. It replaces all
values that may be secret by ***: those of key-value pairs and of overrides; the server hides
those of sync objects. It leaves out the files of documents: kubeconfigs, charts and profiles.
A note names each collection that you may not read.`,
		Example:           "  emcoctl dump >documents.yaml\n  emcoctl dump projects/shop",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: complete.New(s).Anchor,
		RunE: s.Run(func(c *cobra.Command, args []string) error {
			d := dump{Session: s}
			if len(args) == 0 {
				return d.below(c.Context(), "", "")
			}
			path := kind.Expand(args[0])
			if anchor.IsCollection(path) {
				return d.list(c.Context(), path)
			}
			return d.item(c.Context(), path)
		}),
	}
}

// dump is one run of the command.
type dump struct {
	*session.Session
	printed int
}

// below prints the documents below an item of a collection.
func (d *dump) below(ctx context.Context, item, collection string) error {
	for _, k := range kind.All() {
		if !slices.Contains(k.Parents, collection) {
			continue
		}
		path := k.Collection
		if item != "" {
			path = item + "/" + path
		}
		err := d.list(ctx, path)
		switch {
		case errs.Is(err, errs.NotFound): // upstream's kinds that this server does not have
		case errs.Is(err, errs.Forbidden):
			fmt.Fprintf(d.Sys.Err, "note: %s left out: %s\n", path, printable.Line(err.Error()))
		case err != nil:
			return err
		}
	}
	return nil
}

// list prints the documents of a collection, each with those below it.
func (d *dump) list(ctx context.Context, path string) error {
	c, err := d.Dial(path)
	if err != nil {
		return err
	}
	text, err := client.Get[json.RawMessage](ctx, c, path)
	if err != nil {
		return err
	}
	items, err := itemsIn(text)
	if err != nil {
		return errs.E(errs.Malformed, "dump", path, err)
	}
	for _, item := range items {
		if err := d.document(ctx, path, item); err != nil {
			return err
		}
	}
	return nil
}

// itemsIn returns the documents of a list. That of group intents is an object with the list.
func itemsIn(text json.RawMessage) (items []json.RawMessage, err error) {
	var object struct {
		Intent []json.RawMessage `json:"intent"`
	}
	if json.Unmarshal(text, &object) == nil {
		return object.Intent, nil
	}
	err = json.Unmarshal(text, &items)
	return items, err
}

// item prints one document with those below it.
func (d *dump) item(ctx context.Context, path string) error {
	c, err := d.Dial(path)
	if err != nil {
		return err
	}
	text, err := client.Get[json.RawMessage](ctx, c, path)
	if err != nil {
		return err
	}
	parent := anchor.Parent(path)
	if anchor.Collection(path) == "composite-apps" {
		parent = anchor.Parent(parent)
	}
	return d.document(ctx, parent, text)
}

// document prints a document of a collection, and those below it.
func (d *dump) document(ctx context.Context, path string, text json.RawMessage) error {
	if d.printed++; d.printed > maxDumped {
		return fmt.Errorf("there are more than %d documents; name an anchor", maxDumped)
	}
	n, err := jsontree.Parse(text)
	if err != nil {
		return err
	}
	names := anchor.Names{Name: n.At("metadata.name").String(), Version: n.At("spec.compositeAppVersion").String(), Label: n.At("clusterLabel").String()}
	if names.Name == "" && names.Label == "" {
		fmt.Fprintf(d.Sys.Out, "# %s lists no names, only: %s\n", path, printable.Line(string(text)))
		return nil
	}
	item, err := anchor.Item(path, names)
	if err != nil {
		return err
	}
	n = n.Prune()
	if anchor.Last(path) == "kv-pairs" {
		hide(n.At("spec.kv"))
	}
	for _, override := range n.At("spec.overrideValues").List {
		hide(override.At("values"))
	}
	n.Object["version"], n.Object["resourceContext"] = textNode("emco/v2"), jsontree.Node{Object: map[string]jsontree.Node{"anchor": textNode(path)}}
	document, err := n.JSON()
	if err != nil {
		return err
	}
	fmt.Fprintln(d.Sys.Out, "---")
	if err := output.Encode(d.Sys.Out, output.YAML, document); err != nil {
		return err
	}
	return d.below(ctx, item, anchor.Last(path))
}

func textNode(text string) jsontree.Node { return jsontree.Node{Text: &text} }

// hide replaces the values of an object, or of the objects of a list.
func hide(n jsontree.Node) {
	for key := range n.Object {
		n.Object[key] = textNode(v2.Mask)
	}
	for _, item := range n.List {
		hide(item)
	}
}
