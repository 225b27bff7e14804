// Command protogen writes the Go code of the .proto files in a folder. It needs neither protoc nor a
// network: it compiles the files itself, and the two plugins are tools of this module. The code is formatted as ours is.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
	"mvdan.cc/gofumpt/format"
)

// plugins are the generators, with their parameters.
var plugins = []struct{ tool, parameter string }{
	{"protoc-gen-go", "paths=source_relative"},
	{"protoc-gen-go-grpc", "paths=source_relative"},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "protogen: name one folder")
		os.Exit(2)
	}
	if err := generate(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, dir string) error {
	req, err := compile(ctx, dir)
	if err != nil {
		return err
	}
	for _, p := range plugins {
		req.Parameter = proto.String(p.parameter)
		files, err := run(ctx, p.tool, req)
		if err != nil {
			return fmt.Errorf("%s: %w", p.tool, err)
		}
		for _, f := range files {
			code, err := format.Source([]byte(f.GetContent()), format.Options{})
			if err != nil {
				return fmt.Errorf("%s: format %s: %w", p.tool, f.GetName(), err)
			}
			if err := os.WriteFile(filepath.Join(dir, f.GetName()), code, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// compile reads all .proto files of a folder, with their comments.
func compile(ctx context.Context, dir string) (*pluginpb.CodeGeneratorRequest, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.proto"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no .proto file in %s", dir)
	}
	req := &pluginpb.CodeGeneratorRequest{}
	for _, p := range paths {
		req.FileToGenerate = append(req.FileToGenerate, filepath.Base(p))
	}
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(ctx, req.FileToGenerate...)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		req.ProtoFile = append(req.ProtoFile, protoutil.ProtoFromFileDescriptor(f))
	}
	return req, nil
}

// run passes the request to a plugin, as protoc does.
func run(ctx context.Context, tool string, req *pluginpb.CodeGeneratorRequest) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	in, err := proto.Marshal(req)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", tool)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	var res pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out.Bytes(), &res); err != nil {
		return nil, err
	}
	if res.Error != nil {
		return nil, fmt.Errorf("%s", res.GetError())
	}
	return res.File, nil
}
