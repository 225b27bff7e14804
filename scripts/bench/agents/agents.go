// Package agents posts the reports that agents of many clusters send by HTTPS, but over plain HTTP and without
// compression, from a template: on few connections and with minimal work, because it shares the machine with the
// measured program.
package agents

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"

	"github.com/emco-orchestrator/emco/scripts/bench/pace"
)

// Agent is the agent of one cluster. It belongs to one goroutine at a time.
type Agent struct {
	Cluster string // <provider>+<cluster>
	Path    string // address of its posts
	Token   string
	Apps    []status.App

	Taken uint64 // sequence of the last acknowledged report

	seq  uint64
	name string // hash of its last report
	turn int
	form reportTemplate
}

// Load configures the reports.
type Load struct {
	Address     string // of the control plane: http://host:port
	Connections int
	For         time.Duration
	News        bool // each report differs from the previous one; otherwise only the first carries news
	Rate        int  // reports per second; 0: as many as the server answers
}

// Result is the result of a run.
type Result struct {
	Taken   int       // acknowledged reports
	Late    int       // reports that the server asked to send later
	Took    []float64 // seconds from a report to its acknowledgement
	Seconds float64
	Wrong   string // the last other answer
}

// Run sends the agents' reports, in turn, until the time ends. The sequences of an agent increase from
// one run to the next.
func (l Load) Run(ctx context.Context, agents []*Agent) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, l.For)
	defer cancel()
	results, failures := make([]Result, l.Connections), make([]error, l.Connections)
	began := time.Now()
	var all sync.WaitGroup
	for i := range l.Connections {
		all.Go(func() { failures[i] = l.line(ctx, i, agents, &results[i]) })
	}
	all.Wait()
	out := Result{Seconds: time.Since(began).Seconds()}
	for i, r := range results {
		if failures[i] != nil {
			return out, failures[i]
		}
		out.Taken, out.Late, out.Took = out.Taken+r.Taken, out.Late+r.Late, append(out.Took, r.Took...)
		if r.Wrong != "" {
			out.Wrong = r.Wrong
		}
	}
	return out, nil
}

// line is one connection for the reports of every n-th agent.
func (l Load) line(ctx context.Context, i int, agents []*Agent, out *Result) error {
	u, err := url.Parse(l.Address)
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	w := agentConn{host: u.Host, conn: conn, in: bufio.NewReader(conn)}
	began := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		for k := i; k < len(agents) && ctx.Err() == nil; k += l.Connections {
			if !l.await(ctx, began, i+n*len(agents)+k) {
				return nil
			}
			sent := time.Now()
			code, err := w.report(agents[k], l.News)
			if err != nil {
				return err
			}
			switch code {
			case http.StatusNoContent:
				out.Taken++
				out.Took = append(out.Took, time.Since(sent).Seconds())
			case http.StatusServiceUnavailable, http.StatusTooManyRequests:
				out.Late++
			case http.StatusPreconditionFailed: // the next report is sent whole
			default:
				out.Wrong = fmt.Sprintf("%d for %s", code, agents[k].Cluster)
			}
		}
	}
	return nil
}

// await waits until a report is due; false if ctx ends first.
func (l Load) await(ctx context.Context, began time.Time, number int) bool {
	return l.Rate == 0 || pace.Until(ctx, began.Add(time.Duration(number)*time.Second/time.Duration(l.Rate)))
}

// Report sends one report of an agent on a new connection, and returns the status of the answer.
func (a *Agent) Report(address string, news bool) (int, error) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	w := agentConn{host: u.Host, conn: conn, in: bufio.NewReader(conn)}
	return w.report(a, news)
}

// Reported is the news in the agent's last report.
func (a *Agent) Reported() string { return fmt.Sprintf("turn %d.", a.turn) }

// Text is the agent's next report, with news.
func (a *Agent) Text() ([]byte, error) { return a.text(true) }

// patience is the time limit of an answer.
const patience = 10 * time.Second

// agentConn is an HTTP/1.1 connection.
type agentConn struct {
	host string
	conn net.Conn
	in   *bufio.Reader
	out  bytes.Buffer
}

func (w *agentConn) report(a *Agent, news bool) (int, error) {
	text, err := a.text(news)
	if err != nil {
		return 0, err
	}
	w.out.Reset()
	fmt.Fprintf(&w.out, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", a.Path, w.host, a.Token, len(text))
	w.out.Write(text)
	if err := w.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	if _, err := w.conn.Write(w.out.Bytes()); err != nil {
		return 0, err
	}
	code, name, err := w.answer()
	if a.name = name; code != http.StatusNoContent {
		a.name = ""
	} else {
		a.Taken = a.seq
	}
	return code, err
}

// text is the next report.
func (a *Agent) text(news bool) ([]byte, error) {
	a.turn++
	a.seq = max(a.seq+1, uint64(time.Now().Unix()))
	if !news && a.name != "" {
		return status.Encode(status.Report{Cluster: a.Cluster, Seq: a.seq, At: now(), Agent: version, Same: a.name}, 0)
	}
	if news && a.form.ready() {
		return a.form.fill(a.seq, a.Reported()), nil
	}
	text, err := status.Encode(a.report(news), 0)
	if news && err == nil {
		a.form = newReportTemplate(text, a.seq, a.Reported())
	}
	return text, err
}

const version = "bench/1"

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// report is the complete report of an agent.
func (a *Agent) report(news bool) status.Report {
	r := status.Report{Cluster: a.Cluster, Seq: a.seq, At: now(), Agent: version, Apps: make([]status.App, len(a.Apps))}
	for i, app := range a.Apps {
		r.Apps[i] = app
		if news && len(app.Objects) > 0 {
			r.Apps[i].Objects = append([]status.Object{}, app.Objects...)
			r.Apps[i].Objects[0].Reason = a.Reported()
		}
	}
	return r
}

// answer reads the header of an answer, and skips its body.
func (w *agentConn) answer() (code int, name string, err error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return 0, "", err
	}
	if len(line) < 12 {
		return 0, "", fmt.Errorf("answer %q", line)
	}
	if code, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, "", err
	}
	length := 0
	for {
		if line, err = w.in.ReadSlice('\n'); err != nil {
			return code, name, err
		}
		head, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		if !ok {
			break
		}
		switch {
		case bytes.EqualFold(head, []byte("Etag")):
			name = string(bytes.Trim(value, `"`))
		case bytes.EqualFold(head, []byte("Content-Length")):
			length, _ = strconv.Atoi(string(value))
		}
	}
	_, err = w.in.Discard(length)
	return code, name, err
}
