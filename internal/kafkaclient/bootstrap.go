package kafkaclient

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// ParseBootstrapServers returns the host:port addresses of entries, in order and without repeats. An entry may itself
// be a comma-separated list, as Kafka's own bootstrap.servers is; spaces and empty parts (a trailing comma) are
// dropped. The error names the part that is not an address, but
// for one that may hold credentials.
func ParseBootstrapServers(entries ...string) ([]string, error) {
	var addrs []string
	// An entry may hold a password, with a comma in it too: before anything is taken apart and named (rule 13).
	if slices.ContainsFunc(entries, func(entry string) bool { return strings.Contains(entry, "@") }) {
		return nil, errors.New("bootstrap_servers: an entry has an @ in it, which no host:port has; credentials belong in sasl")
	}
	for _, entry := range entries {
		for part := range strings.SplitSeq(entry, ",") {
			part = strings.TrimSpace(part)
			if part == "" {
				continue
			}
			if err := checkAddress(part); err != nil {
				return nil, fmt.Errorf("bootstrap_servers: %w", err)
			}
			if !slices.Contains(addrs, part) {
				addrs = append(addrs, part)
			}
		}
	}
	if len(addrs) == 0 {
		return nil, errors.New("bootstrap_servers: no address given; write at least one host:port")
	}
	return addrs, nil
}

func checkAddress(addr string) error {
	if strings.Contains(addr, "://") {
		return fmt.Errorf("%q begins with a listener name or scheme; write host:port alone", addr)
	}
	host, port, err := net.SplitHostPort(addr)
	switch {
	case err != nil && strings.Count(addr, ":") > 1 && !strings.HasPrefix(addr, "["):
		return fmt.Errorf("%q looks like an IPv6 address; write it as [address]:port", addr)
	case err != nil:
		return fmt.Errorf("%q has no port; write host:port, such as %s:9092", addr, strings.Trim(addr, "[]"))
	case host == "":
		return fmt.Errorf("%q has no host; write host:port", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%q has port %q; a port is a number from 1 to 65535", addr, port)
	}
	return nil
}
