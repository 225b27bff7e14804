package lifecycle

import (
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

func TestHistoryOfADocumentBeginsWithItsCreation(t *testing.T) {
	t.Parallel()
	contexts, noon := contexttest.New(t), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	doc := store.Doc{Key: "projects/p/logical-clouds/l", UID: "7", Created: noon}

	head, unwritten, err := Head(t.Context(), contexts, doc)
	if err != nil || head.State != appcontext.Created || head.UID != "7" || head.Document != string(doc.Key) || len(unwritten) != 1 {
		t.Fatalf("a new document: got %+v, %+v, %v", head, unwritten, err)
	}
	if s := States(head, unwritten); s.StatusCtxID != "" || s.Actions[0].State != "Created" || !s.Actions[0].Time.Equal(noon) {
		t.Errorf("a new document: got %+v", s)
	}
	to := head
	to.State, to.LastRev = appcontext.Instantiated, 1
	if _, err := contexts.ChangeHead(t.Context(), head, to, append(unwritten, appcontext.HistoryEntry{State: to.State, Instance: "7", Revision: 1, Time: noon}), nil); err != nil {
		t.Fatal(err)
	}

	if _, unwritten, err = Head(t.Context(), contexts, doc); err != nil || unwritten != nil {
		t.Errorf("after a step nothing is unwritten: got %+v, %v", unwritten, err)
	}
	head, acts, err := History(t.Context(), contexts, doc)
	if err != nil || len(acts) != 2 {
		t.Fatalf("after a step: got %+v, %v", acts, err)
	}
	if s := States(head, acts); s.StatusCtxID != "7" || s.Actions[1].State != "Instantiated" || s.Actions[1].Revision != 1 {
		t.Errorf("after a step: got %+v", s)
	}
}
