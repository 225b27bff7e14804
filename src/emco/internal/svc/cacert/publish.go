package cacert

import (
	"cmp"
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/addon"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// Publishers returns what makes the revisions of the stages.
func (a *Authorities) Publishers() addon.Publishers {
	return addon.Publishers{enrollment.collection: enrollmentPublisher{a}, distribution.collection: distributionPublisher{a}}
}

// enrollmentPublisher makes revisions of the requests for certificates.
type enrollmentPublisher struct{ a *Authorities }

// Publish implements addon.Publisher. Keys that are made stay for the next attempt, if this one fails.
func (p enrollmentPublisher) Publish(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, doc store.Doc) (appcontext.Head, error) {
	ca, places, err := p.a.model(ctx, enrollment, doc)
	if err != nil {
		return head, err
	}
	had, err := store.Decode[renewalSchedule](doc)
	if err != nil {
		return head, err
	}
	keys, life := p.a.keysOf(doc.Key), lifeOf(ca, had.Life)
	var requests []any
	var renewAt time.Time
	for _, at := range places {
		e, err := keys.ensure(ctx, ca, at, life)
		if err != nil {
			return head, err
		}
		requests, renewAt = append(requests, request(ca, at, e)), earlier(renewAt, renewal(e.At, life))
	}
	bundle, err := addon.Save(ctx, contexts, enrollment.name, head.Deployment(), requests)
	if err != nil {
		return head, err
	}
	err = p.a.reschedule(ctx, doc.Key, func(s renewalSchedule) renewalSchedule {
		return renewalSchedule{Rev: head.Op.Rev, RenewAt: renewAt, Life: s.Life}
	})
	if err != nil {
		return head, err
	}
	head, err = addon.Publish(ctx, contexts, head, addon.Revision{
		App: enrollment.name, Namespace: ca.Spec.IssuingCluster.Namespace, Places: []addon.Place{{Cluster: ca.Spec.IssuingCluster.Key(), Bundle: bundle}},
	})
	if err != nil {
		return head, err
	}
	return head, keys.keepOnly(ctx, places)
}

// distributionPublisher makes revisions of what clusters get.
type distributionPublisher struct{ a *Authorities }

// Publish implements addon.Publisher.
func (p distributionPublisher) Publish(ctx context.Context, contexts *appcontext.Store, head appcontext.Head, doc store.Doc) (appcontext.Head, error) {
	ca, places, err := p.a.model(ctx, distribution, doc)
	if err != nil {
		return head, err
	}
	signed, err := p.a.signed(ctx, ca)
	if err != nil {
		return head, err
	}
	keys := p.a.keysOf(enrollment.key(ca.key))
	var at []addon.Place
	var requested, notAfter time.Time // of the first ones
	life := ca.Spec.Valid()
	for i := 0; i < len(places); {
		cluster, all := places[i].cluster, []any(nil)
		for ; i < len(places) && places[i].cluster == cluster; i++ {
			e, key, err := keys.get(ctx, ca, places[i])
			if err != nil {
				return head, err
			}
			one := signed[requestName(ca, places[i], e)]
			ends, err := p.a.accept(one, key, places[i])
			if err != nil {
				return head, err
			}
			requested, notAfter, life = earlier(requested, e.At), earlier(notAfter, ends), min(life, ends.Sub(e.At))
			all = append(all, objects(ca, places[i], one, key)...)
		}
		bundle, err := addon.Save(ctx, contexts, distribution.name, head.Deployment(), all)
		if err != nil {
			return head, err
		}
		at = append(at, addon.Place{Cluster: cluster, Bundle: bundle})
	}
	renewAt := renewal(requested, life)
	err = p.a.reschedule(ctx, enrollment.key(ca.key), func(s renewalSchedule) renewalSchedule {
		if s.Life = life; life >= ca.Spec.Valid() {
			s.Life = 0
		}
		s.RenewAt = renewAt
		return s
	})
	if err != nil {
		return head, err
	}
	err = p.a.reschedule(ctx, doc.Key, func(renewalSchedule) renewalSchedule {
		return renewalSchedule{Rev: head.Op.Rev, RenewAt: renewAt, NotAfter: notAfter}
	})
	if err != nil {
		return head, err
	}
	return addon.Publish(ctx, contexts, head, addon.Revision{App: distribution.name, Namespace: issuerSecrets, Places: at})
}

// model reads what a revision of a stage follows from. Invalid and NotFound concern the documents.
func (a *Authorities) model(ctx context.Context, s addonStage, doc store.Doc) (authority, []certificatePlace, error) {
	ca, _, err := a.authorityAt(ctx, owner(doc.Key))
	if err != nil {
		return ca, nil, err
	}
	places, err := a.checkPlaces(ctx, s, ca)
	return ca, places, err
}

func (a *Authorities) keysOf(enrollment store.Key) keyring {
	return keyring{db: a.db, enrollment: enrollment, now: a.now}
}

// signed reads what the issuer has signed for a certificate authority, by name of the request.
func (a *Authorities) signed(ctx context.Context, ca authority) (map[string]Signed, error) {
	cluster, err := directCluster(ctx, a.db, ca.Spec.IssuingCluster.Key())
	if err != nil {
		return nil, err
	}
	doc, err := a.db.Get(ctx, enrollment.key(ca.key))
	if err != nil {
		return nil, store.NotFoundAs(err, "the enrollment is not instantiated; instantiate it first")
	}
	return a.issuers.Signed(ctx, cluster, ca.Spec.IssuingCluster.Namespace, appcontext.HeadID(doc.UID).Deployment(), enrollment.name)
}

// accept returns when a certificate that was signed for a place ends, or why the place cannot sign with it.
func (a *Authorities) accept(signed Signed, key seal.Secret, p certificatePlace) (time.Time, error) {
	if len(signed.Certificate) == 0 {
		return time.Time{}, errs.New(errs.Invalid, "the issuer has not signed the certificate of "+p.name()+": "+cmp.Or(signed.Problem, "it has no such request yet; wait until the enrollment is Ready, and update the distribution"))
	}
	ends, err := signed.check(key, a.now())
	if err != nil {
		return time.Time{}, errs.New(errs.Invalid, "the certificate of "+p.name()+" is not usable: "+err.Error())
	}
	return ends, nil
}
