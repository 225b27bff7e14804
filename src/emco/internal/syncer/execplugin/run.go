package execplugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

const (
	maxSaid = 4 << 10 // bytes of stderr that are kept
	maxLine = 300     // bytes of it that an error shows
	secret  = 4       // values of options that are at least as long are kept out of errors
)

// runner runs one executable, once for each question.
type runner struct {
	name, path string
	limits     Limits
	slots      chan struct{}
	options    map[string]string
}

// ask puts a question and returns the answer, or why there is none.
func (r runner) ask(ctx context.Context, q question) (answer, error) {
	q.Version, q.Options = version, r.options
	text, err := json.Marshal(q)
	if err != nil {
		return answer{}, r.broken(err)
	}
	if text, err = r.run(ctx, text); err != nil {
		return answer{}, r.broken(err)
	}
	a, err := read(text)
	if err != nil {
		return answer{}, r.broken(err)
	}
	return a, r.refusal(a)
}

// run starts the executable, hands it the question and returns what it writes.
func (r runner) run(ctx context.Context, question []byte) ([]byte, error) {
	r.slots <- struct{}{}
	defer func() { <-r.slots }()
	timed, cancel := context.WithTimeout(ctx, r.limits.Time)
	defer cancel()
	cmd := exec.CommandContext(timed, r.path)
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	alone(cmd)
	said := &head{}
	cmd.Stderr = said
	text, err := r.talk(cmd, question)
	switch {
	case timed.Err() != nil:
		return nil, fmt.Errorf("it did not answer within %s and was ended", r.limits.Time)
	case int64(len(text)) > r.limits.Output:
		return nil, fmt.Errorf("it wrote more than %d bytes and was ended", r.limits.Output)
	case err != nil:
		return nil, said.explain(err)
	}
	return text, nil
}

// talk writes the question while it reads the answer: an executable may answer before it
// has read everything. One that dies early shows in the error of Wait.
func (r runner) talk(cmd *exec.Cmd, question []byte) ([]byte, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	confined := confine(cmd.Process.Pid, r.limits)
	written := make(chan struct{})
	go func() {
		defer close(written)
		if confined == nil {
			_, _ = in.Write(question)
		}
		_ = in.Close()
	}()
	text, readErr := io.ReadAll(io.LimitReader(out, r.limits.Output+1))
	if int64(len(text)) > r.limits.Output || confined != nil {
		_ = cmd.Cancel() // it would wait for a reader
	}
	waited := cmd.Wait()
	<-written
	return text, errors.Join(confined, waited, readErr)
}

// head keeps the beginning of what is written to it.
type head struct{ text bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	h.text.Write(p[:min(len(p), maxSaid-h.text.Len())])
	return len(p), nil
}

// explain adds what an executable said to what became of it.
func (h *head) explain(err error) error {
	if text := line(h.text.String()); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// line is the beginning of a text, in one line.
func line(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "..."
	}
	return text
}

// scrub takes values of options out of a text: the executable may repeat what it was
// given, and that may be a credential.
func (r runner) scrub(text string) string {
	for _, value := range r.options {
		if len(value) >= secret {
			text = strings.ReplaceAll(text, value, "***")
		}
	}
	return text
}
