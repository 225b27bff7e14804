package command

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestWrongUsageIsToldApart(t *testing.T) {
	for _, line := range []string{
		"down", "where", "where kube flux", "up", "up -dir d -clusters a,a", "up -dir d -clusters a -flux b",
		"up -dir d extra", "up -dir d -nodes many",
	} {
		err := Run(t.Context(), Output{io.Discard, io.Discard}, strings.Fields(line))
		if code := ExitCode(err); code != 2 {
			t.Errorf("testbed %s: exit code %d (%v), want 2", line, code, err)
		}
	}
	if code := ExitCode(errors.New("other")); code != 1 {
		t.Errorf("exit code of another error: %d, want 1", code)
	}
}

func TestTheFlagsOfUp(t *testing.T) {
	got, err := parseUp(strings.Fields("-clusters c1,c2 -flux c2 -dir d -nodes 3"))
	want := upPlan{clusters: []string{"c1", "c2"}, flux: []string{"c2"}, dir: "d", nodes: 3}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parseUp = %+v, %v, want %+v", got, err, want)
	}
	if got, err := parseUp([]string{"-dir", "d", "-nodes", "0"}); err != nil || got.nodes >= 0 {
		t.Errorf("parseUp with -nodes 0 = %+v, %v, want a negative number", got, err)
	}
}

func TestHelpNamesCommandsAndParts(t *testing.T) {
	var out bytes.Buffer
	if err := Run(t.Context(), Output{&out, io.Discard}, []string{"help"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"testbed up", "testbed build", "testbed where", "  kwok  "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q:\n%s", want, out.String())
		}
	}
}
