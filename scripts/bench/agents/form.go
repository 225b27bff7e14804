package agents

import (
	"bytes"
	"strconv"
	"time"
)

// form is an encoded report with news and gaps for the sequence, the time and the news. In a real fleet
// the agents encode the rest on their own machines.
type form struct {
	parts [][]byte // the text between the first sequence, the first time, and all places of the news
	out   []byte
}

func (f *form) ready() bool { return f.parts != nil }

// formOf makes a form from a report that was encoded with a sequence and with news.
func formOf(text []byte, seq uint64, news string) form {
	head, rest, ok := bytes.Cut(text, append([]byte(`"seq":`), strconv.FormatUint(seq, 10)...))
	_, rest, timed := bytes.Cut(rest, []byte(`Z"`))
	if !ok || !timed {
		return form{}
	}
	return form{parts: append([][]byte{head}, bytes.Split(rest, []byte(news))...)}
}

// fill returns the current report. It is valid until the next call.
func (f *form) fill(seq uint64, news string) []byte {
	out := append(append(f.out[:0], f.parts[0]...), `"seq":`...)
	out = append(strconv.AppendUint(out, seq, 10), `,"at":"`...)
	out = append(time.Now().UTC().AppendFormat(out, "2006-01-02T15:04:05"), `Z"`...)
	for i, part := range f.parts[1:] {
		if i > 0 {
			out = append(out, news...)
		}
		out = append(out, part...)
	}
	f.out = out
	return out
}
