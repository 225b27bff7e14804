// Command ferretdb serves MongoDB's protocol over files of SQLite:
//
//	ferretdb ADDRESS FOLDER
//
// FerretDB loses updates of concurrent clients. So clients reach it through a listener that lets one
// message at a time through, and waits for its answer: each command is atomic then, as on MongoDB.
// ADDRESS also answers GET /healthz.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ferretdb:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 2 {
		return errors.New("call it as: ferretdb ADDRESS FOLDER")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	socket := filepath.Join(args[1], "ferretdb.sock")
	f, err := ferretdb.New(&ferretdb.Config{
		Listener: ferretdb.ListenerConfig{Unix: socket},
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Handler:  "sqlite", SQLiteURL: "file:" + args[1] + "/?_pragma=synchronous(off)", // the kernel keeps what a killed process wrote
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go (&turnstile{socket: socket}).accept(l)
	return f.Run(ctx)
}

// turnstile lets one message at a time through to FerretDB.
type turnstile struct {
	socket string
	turn   sync.Mutex // held from a message to its answer
}

func (t *turnstile) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer client.Close()
			if err := t.relay(client); err != nil && !errors.Is(err, io.EOF) {
				slog.Warn("a connection ended", "err", err)
			}
		}()
	}
}

// relay passes messages of one client on, and the answers back.
func (t *turnstile) relay(client net.Conn) error {
	in := bufio.NewReader(client)
	if begin, err := in.Peek(4); err == nil && string(begin) == "GET " {
		_, err := io.WriteString(client, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n")
		return err
	}
	server, err := net.Dial("unix", t.socket)
	if err != nil {
		return err
	}
	defer server.Close()
	out := bufio.NewReader(server)
	for {
		question, err := message(in)
		if err != nil {
			return err
		}
		answer, err := t.ask(server, out, question)
		if err != nil {
			return err
		}
		if _, err := client.Write(answer); err != nil {
			return err
		}
	}
}

// ask passes one message on while no other is under way.
func (t *turnstile) ask(server net.Conn, out *bufio.Reader, question []byte) ([]byte, error) {
	t.turn.Lock()
	defer t.turn.Unlock()
	if _, err := server.Write(question); err != nil {
		return nil, err
	}
	return message(out)
}

// largest is the largest message of MongoDB's protocol, in bytes.
const largest = 48_000_000

// message reads one message; it begins with its length.
func message(r *bufio.Reader) ([]byte, error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head)
	if n < 16 || n > largest {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	text := make([]byte, n)
	_, err = io.ReadFull(r, text)
	return text, err
}
