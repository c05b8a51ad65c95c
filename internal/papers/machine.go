package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// A machine is what times were measured on. Names of hosts are not in it.
type machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu,omitempty"`
	Kernel string `json:"kernel,omitempty"`
	Go     string `json:"go"`
	Load   string `json:"load_average,omitempty"` // processes that wanted a core in the last minute, when the experiment began
}

// thisMachine describes where we run, as far as the system tells.
func thisMachine() machine {
	m := machine{Cores: runtime.NumCPU(), Go: fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(text), " ")
	}
	return m
}

func (m machine) String() string {
	parts := []string{fmt.Sprintf("%d cores", m.Cores)}
	if m.CPU != "" {
		parts[0] += " of " + m.CPU
	}
	if m.Kernel != "" {
		parts = append(parts, "kernel "+m.Kernel)
	}
	parts = append(parts, m.Go)
	if m.Load != "" {
		parts = append(parts, "load average "+m.Load+" at the start")
	}
	return strings.Join(parts, ", ")
}
