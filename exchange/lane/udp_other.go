//go:build !linux

package lane

import "net"

// fastUDP returns conn: elsewhere the Go library's calls have to do.
func fastUDP(conn net.PacketConn) net.PacketConn { return conn }
