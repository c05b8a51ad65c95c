package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A folder holds the results.
type folder struct {
	path  string
	peers []Record // of peers.json
}

func (f *folder) file(name string) string { return filepath.Join(f.path, name) }

// write writes a file aside and renames it when it is whole.
func (f *folder) write(name string, data []byte) error {
	tmp, err := os.CreateTemp(f.path, "."+name+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), f.file(name))
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}

// save writes the raw numbers of an experiment, a record a line.
func (f *folder) save(raw *Raw) error {
	var b bytes.Buffer
	head := *raw
	head.Records, head.Timelines, head.Study = nil, nil, nil
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	b.Write(bytes.Replace(text[:len(text)-1], []byte(`,"records":null`), nil, 1))
	b.WriteString(",\n\"records\":[")
	if err := lines(&b, raw.Records); err != nil {
		return err
	}
	if raw.Timelines != nil {
		b.WriteString(",\n\"timelines\":[")
		if err := lines(&b, raw.Timelines); err != nil {
			return err
		}
	}
	if raw.Study != nil {
		b.WriteString(",\n\"study\":[")
		if err := lines(&b, raw.Study); err != nil {
			return err
		}
	}
	b.WriteString("}\n")
	return f.write(raw.Experiment+".json", b.Bytes())
}

// lines appends the elements and the end of a JSON list, one a line.
func lines[T any](b *bytes.Buffer, list []T) error {
	for i, x := range list {
		text, err := json.Marshal(x)
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n")
		b.Write(text)
	}
	b.WriteString("]")
	return nil
}

// load reads the raw numbers of an experiment, and adds what real processes took on its networks.
func (f *folder) load(e *experiment) (*Raw, error) {
	data, err := os.ReadFile(f.file(e.id + ".json"))
	if err != nil {
		return nil, err
	}
	raw := new(Raw)
	if err := json.Unmarshal(data, raw); err != nil {
		return nil, fmt.Errorf("%s.json: %w", e.id, err)
	}
	raw.Records = append(raw.Records, f.peers...)
	return raw, nil
}

// page makes the page of an experiment from its raw numbers.
func (e *experiment) page(raw *Raw) *page {
	p := new(page)
	raw = raw.dated()
	p.old = raw.outdatedText()
	e.report(raw, p)
	var seen []string
	for _, s := range e.sweeps {
		key := s.arena + string(s.collective)
		if !slices.Contains(seen, key) {
			seen = append(seen, key)
			p.lab(raw, s.arena, s.collective)
		}
	}
	return p
}

// show writes page and picture of an experiment.
func (f *folder) show(e *experiment) error {
	raw, err := f.load(e)
	if err != nil {
		return err
	}
	p := e.page(raw)
	if len(p.panels) > 0 {
		picture, err := drawSVG(p.panels, p.columns)
		if err != nil {
			return fmt.Errorf("%s: %w", e.id, err)
		}
		if err := f.write(e.id+".svg", picture); err != nil {
			return err
		}
	}
	return f.write(e.id+".md", p.markdown(e, raw))
}

// index writes README.md and AGREEMENT.md from all raw numbers in the folder.
func (f *folder) index() error {
	readme, agreement := new(bytes.Buffer), new(bytes.Buffer)
	readme.WriteString(readmeHead)
	agreement.WriteString(agreementHead)
	var last *paper
	var total [3]int
	took := 0.0
	for i := range experiments {
		e := &experiments[i]
		raw, err := f.load(e)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		p := e.page(raw)
		took += raw.Seconds
		if e.paper != last {
			last = e.paper
			fmt.Fprintf(readme, "\n## %s\n\n| | what | in the paper | measured | agrees / partly / differs |\n|---|---|---|---|---|\n", e.paper.cite)
			fmt.Fprintf(agreement, "## %s\n\n", e.paper.cite)
		}
		var count [3]int
		for _, x := range p.findings {
			k := slices.Index([]verdict{agrees, partly, differs}, x.verdict)
			count[k]++
			total[k]++
		}
		fmt.Fprintf(readme, "| [%s](%s.md) | %s | %s | %s | %d / %d / %d |\n", e.id, e.id, e.title, e.where, raw.Date, count[0], count[1], count[2])
		if len(p.findings) > 0 {
			fmt.Fprintf(agreement, "### [%s](%s.md): %s\n\n", e.id, e.id, e.title)
			writeFindings(agreement, p.findings)
		}
		if p.old != "" {
			fmt.Fprintf(agreement, "%s\n\n", p.old)
		}
		if text := why[e.id]; text != "" {
			fmt.Fprintf(agreement, "%s\n\n", strings.TrimSpace(text))
		}
	}
	fmt.Fprintf(readme, "\nTo measure all of it took %s of wall clock.\n", minutes(took))
	if _, err := os.Stat(f.file("probes.md")); err == nil { // written by scripts/bench probes, not here
		readme.WriteString("\nNot of a paper: [probes](probes.md), how true the agents' network map is, and what keeping it so costs.\n")
	}
	readme.WriteString(readmeTail)
	fmt.Fprintf(agreement, "## All together\n\n%d findings agree, %d partly, %d differ.\n", total[0], total[1], total[2])
	if err := f.write("README.md", readme.Bytes()); err != nil {
		return err
	}
	return f.write("AGREEMENT.md", agreement.Bytes())
}
