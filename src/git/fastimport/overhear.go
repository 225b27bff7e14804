package fastimport

import (
	"bufio"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/git/transport"
)

// answer is what an HTTP server has answered last. The program prints the status of a refusal
// and nothing else of it; but it traces all headers that come in, to a pipe that ends here.
// Of that these two are kept. What it sends it traces as well, but for credentials.
type answer struct {
	status     int    // 0: there was none
	retryAfter string // its header of that name
}

// printed is how the program words a status that is a refusal.
var printed = regexp.MustCompile(`returned error: ([1-5][0-9]{2})`)

// refusal gives a failed run the kind of the answer; nil if that was none, or no refusal. What
// the trace does not say, the program may have printed.
func (a answer) refusal(failed *programError) error {
	if said := printed.FindStringSubmatch(failed.said); a.status == 0 && said != nil {
		a.status, _ = strconv.Atoi(said[1])
	}
	if a.status < 400 {
		return nil
	}
	return transport.StatusError(a.status, a.retryAfter, failed)
}

// received is how the program marks a header that came in.
const received = "<= Recv header: "

// read takes in one line of a trace.
func (a *answer) read(line string) {
	_, header, ok := strings.Cut(line, received)
	if !ok {
		return
	}
	if strings.HasPrefix(header, "HTTP/") {
		*a = answer{}
		if fields := strings.Fields(header); len(fields) > 1 {
			a.status, _ = strconv.Atoi(fields[1])
		}
		return
	}
	if name, value, _ := strings.Cut(header, ":"); strings.EqualFold(name, "Retry-After") {
		a.retryAfter = strings.TrimSpace(value)
	}
}

// listen reads a trace to its end; lines are cut where they are longer than any that counts.
func listen(trace io.Reader) (last answer) {
	lines := bufio.NewReader(trace)
	for {
		line, more, err := lines.ReadLine()
		if err != nil {
			return last
		}
		last.read(string(line))
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
	}
}

// overhear has a run trace what it is answered. told waits for that, after the run.
func overhear(r *run) (told func() answer, err error) {
	trace, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.trace = write
	r.env = append(r.env, "GIT_TRACE_CURL=3", "GIT_TRACE_CURL_NO_DATA=1", "GIT_TRACE_REDACT=1") // the first file beside the usual ones
	heard := make(chan answer, 1)
	go func() { heard <- listen(trace) }() // owned by the caller, who waits for it with told
	return func() answer {
		_ = write.Close()
		_ = trace.SetReadDeadline(time.Now().Add(goodbye)) // what the program has started may hold it open
		last := <-heard
		_ = trace.Close()
		return last
	}, nil
}
