package store

import "iter"

// Pages yields what a query finds, read by read in pages of size documents at most: those after q.After. Nothing is
// open between pages, so a slow consumer keeps neither a lock nor a snapshot. It ends at the first error, after the
// documents that read returned with it.
func Pages(q Query, size int, read func(q Query, n int) ([]Doc, error)) iter.Seq2[Doc, error] {
	return func(yield func(Doc, error) bool) {
		left := q.Limit
		for {
			n := size
			if q.Limit > 0 {
				n = min(n, left)
			}
			docs, err := read(q, n)
			for _, doc := range docs {
				if !yield(doc, nil) {
					return
				}
				q.After = doc.Key
			}
			if err != nil {
				yield(Doc{}, err)
				return
			}
			left -= len(docs)
			if len(docs) < n || q.Limit > 0 && left == 0 {
				return
			}
		}
	}
}
