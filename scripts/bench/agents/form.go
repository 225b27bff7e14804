package agents

import (
	"bytes"
	"strconv"
	"time"
)

// reportTemplate is an encoded report with news and gaps for the sequence, the time and the news. In a real fleet
// the agents encode the rest on their own machines.
type reportTemplate struct {
	parts [][]byte // the text between the first sequence, the first time, and all places of the news
	out   []byte
}

func (f *reportTemplate) ready() bool { return f.parts != nil }

// newReportTemplate makes a form from a report that was encoded with a sequence and with news.
func newReportTemplate(text []byte, seq uint64, news string) reportTemplate {
	head, rest, ok := bytes.Cut(text, append([]byte(`"seq":`), strconv.FormatUint(seq, 10)...))
	_, rest, timed := bytes.Cut(rest, []byte(`Z"`))
	if !ok || !timed {
		return reportTemplate{}
	}
	return reportTemplate{parts: append([][]byte{head}, bytes.Split(rest, []byte(news))...)}
}

// fill returns the current report. It is valid until the next call.
func (f *reportTemplate) fill(seq uint64, news string) []byte {
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
