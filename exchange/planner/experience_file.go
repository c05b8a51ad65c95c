package planner

import (
	"encoding/json"
	"fmt"
	"time"
)

// An experienceFile is the form in which an agent keeps its experience (docs/formats.md).
type experienceFile struct {
	Version int      `json:"version"`
	Records []Record `json:"records"`
}

const (
	experienceVersion = 1
	// maxExperience bounds the file: 1,024 records of nine samples take some 600 KB.
	maxExperience = 4 << 20
	maxAlgorithm  = 64
)

// AppendJSON appends x as a file to dst.
func (x *Experience) AppendJSON(dst []byte) ([]byte, error) {
	b, err := json.MarshalIndent(experienceFile{experienceVersion, x.Records()}, "", " ")
	if err != nil {
		return dst, err
	}
	return append(append(dst, b...), '\n'), nil
}

// Read puts what a file says ([ParseExperience]) in place of all that x knows. x is as before if there is an error.
func (x *Experience) Read(data []byte, now time.Time) error {
	from, err := ParseExperience(data, now)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.records = from.records
	return nil
}

// ParseExperience reads what AppendJSON wrote. Whatever is out of range is an error that quotes it:
// a file that somebody has edited is not half believed. Samples from after now count as of now.
func ParseExperience(data []byte, now time.Time) (*Experience, error) {
	if len(data) > maxExperience {
		return nil, fmt.Errorf("experience of %d bytes: at most %d", len(data), maxExperience)
	}
	var f experienceFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("experience: %w", err)
	}
	if f.Version != experienceVersion {
		return nil, fmt.Errorf("experience: version %d, want %d", f.Version, experienceVersion)
	}
	if len(f.Records) > maxRecords {
		return nil, fmt.Errorf("experience: %d records, want at most %d", len(f.Records), maxRecords)
	}
	x := new(Experience)
	for i, r := range f.Records {
		if !r.Class.check() || len(r.Algorithm) == 0 || len(r.Algorithm) > maxAlgorithm {
			return nil, fmt.Errorf("experience: record %d: %.64q for %+.200v is none", i, r.Algorithm, r.Class)
		}
		if len(r.Samples) == 0 || len(r.Samples) > maxSamples {
			return nil, fmt.Errorf("experience: record %d has %d samples, want 1 to %d", i, len(r.Samples), maxSamples)
		}
		if r.Runs < 0 || r.Runs > maxRuns {
			return nil, fmt.Errorf("experience: record %d of %d runs, want 0 to %d", i, r.Runs, int(maxRuns))
		}
		k := recordKey{r.Class, r.Algorithm}
		if x.records[k] != nil {
			return nil, fmt.Errorf("experience: record %d: there is one of %.64q for the same class before it", i, r.Algorithm)
		}
		for _, s := range r.Samples {
			if !(s.Ratio >= 1.0/maxOnce && s.Ratio <= maxFactor) || !(s.Weight > 0 && s.Weight <= tunedWeight) {
				return nil, fmt.Errorf("experience: record %d: a ratio of %v with weight %v, want 1/%d to %d with at most %d", i, s.Ratio, s.Weight, maxOnce, maxFactor, tunedWeight)
			}
			if !(s.Within >= 0 && s.Within <= 1) {
				return nil, fmt.Errorf("experience: record %d: a size at %v of its class, want 0 to 1", i, s.Within)
			}
			if s.At.After(now) {
				s.At = now
			}
			x.add(k, s)
		}
		x.records[k].Runs = max(r.Runs, len(r.Samples)) // older agents wrote none
	}
	return x, nil
}
