// Package identity makes and proves who belongs to a cluster.
//
// A cluster is a certificate authority and a gossip key. [Init] makes one in a
// directory; a [Token] lets another host in: it names the authority by fingerprint
// and carries a secret. [Request] presents it to a seed and writes the directory of
// the new host; [Server] decides such requests where the authority's key lives.
// [Load] reads a directory back, and [Identity.Credentials] is what lanes prove
// themselves with.
//
// A directory (mode 0700) holds
//
//	cluster.json  cluster, host name, site, addresses; written last, so that a
//	              directory without it holds no cluster
//	ca.crt        the authority's certificate, PEM
//	ca.key        its key; only where the authority lives
//	host.crt      the host's chain, leaf first, authority last
//	host.key      its key
//	gossip.key    base64 keys of 32 bytes, one a line, the first one encrypts
//	tokens.json   join tokens, their secrets hashed; only where the authority lives
//	peers.json    remembered members; written by package membership
//	agent.lock    locked by the agent that runs from it, and by who makes it
//
// Keys and tokens have mode 0600; files are written aside and renamed.
//
// Place in the flow: under agent; package membership and exchange/lane use what it
// holds. It knows nothing of measurements, plans or groups.
package identity
