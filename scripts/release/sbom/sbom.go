// Package sbom writes the software bill of materials of Go programs, in the format CycloneDX, from
// what the Go toolchain recorded in them.
package sbom

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Release is what a bill describes.
type Release struct {
	Name, Version, Commit string
	Date                  time.Time
	Programs              []string // their files
}

// Write writes the bill: the programs, and the modules that each contains.
func Write(w io.Writer, r Release) error {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.Date.UTC().Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: r.Name, Type: cdx.ComponentTypeApplication, Name: r.Name, Version: r.Version,
			Properties: &[]cdx.Property{{Name: "git:commit", Value: r.Commit}},
		},
	}
	modules, links := map[string]cdx.Component{}, []cdx.Dependency{}
	var all []string
	for _, file := range r.Programs {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the build of %s: %w", file, err)
		}
		program := strings.TrimSuffix(filepath.Base(file), ".exe")
		own := []string{"pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
		modules[own[0]] = cdx.Component{BOMRef: own[0], Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, PackageURL: own[0]}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if strings.HasPrefix(m.Path, ".") { // a module of this repository
				continue
			}
			ref := "pkg:golang/" + m.Path + "@" + m.Version
			modules[ref] = cdx.Component{
				BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: ref,
				Properties: &[]cdx.Property{{Name: "go:sum", Value: m.Sum}},
			}
			own = append(own, ref)
		}
		modules[program] = cdx.Component{BOMRef: program, Type: cdx.ComponentTypeApplication, Name: program, Version: r.Version}
		slices.Sort(own)
		links = append(links, cdx.Dependency{Ref: program, Dependencies: &own})
		all = append(all, program)
	}
	components := make([]cdx.Component, 0, len(modules))
	for _, c := range modules {
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	slices.Sort(all)
	slices.SortFunc(links, func(a, b cdx.Dependency) int { return cmp.Compare(a.Ref, b.Ref) })
	links = append(links, cdx.Dependency{Ref: r.Name, Dependencies: &all})
	bom.Components, bom.Dependencies = &components, &links
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}
