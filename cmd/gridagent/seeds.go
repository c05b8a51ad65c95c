package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// A seed is an agent to ask for admission, as the operator writes it.
type seed struct {
	host string
	port uint16
}

// parseSeeds reads HOST[:PORT][,HOST[:PORT]…].
func parseSeeds(text string) ([]seed, error) {
	var seeds []seed
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		host, port, err := net.SplitHostPort(part)
		if err != nil { // no port: a name, or an IPv6 address with its colons
			host, port = strings.TrimSuffix(strings.TrimPrefix(part, "["), "]"), defaultPort
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || host == "" {
			return nil, usagef("seed %q: want HOST:PORT with a port from 1 to 65535", part)
		}
		seeds = append(seeds, seed{host: host, port: uint16(n)})
	}
	if len(seeds) == 0 {
		return nil, usagef("no seed in %q: want HOST:PORT[,HOST:PORT]", text)
	}
	return seeds, nil
}

// resolveSeeds returns the addresses of the seeds in text. Names that cannot be looked up
// are an error only if no other seed is left.
func resolveSeeds(ctx context.Context, text string) ([]net.Addr, error) {
	seeds, err := parseSeeds(text)
	if err != nil {
		return nil, err
	}
	var addrs []net.Addr
	var failed []error
	for _, s := range seeds {
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", s.host)
		if err != nil {
			failed = append(failed, fmt.Errorf("seed %s: %w", s.host, err))
			continue
		}
		for _, ip := range ips {
			addrs = append(addrs, net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip.Unmap(), s.port)))
		}
	}
	if len(addrs) > 0 {
		return addrs, nil
	}
	return nil, errors.Join(failed...)
}
