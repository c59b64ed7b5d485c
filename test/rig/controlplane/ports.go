package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePorts returns n different TCP ports on which nobody listens. They lie below the range that
// the kernel gives to outgoing connections, so that none is taken between choosing and listening.
func FreePorts(n int) ([]int, error) {
	const low, high = 20000, 32000
	var ports []int
	seen := map[int]bool{}
	for tries := 0; len(ports) < n; tries++ {
		if tries > 1000 {
			return nil, fmt.Errorf("choosing ports: none free between %d and %d", low, high)
		}
		port := low + rand.IntN(high-low)
		if seen[port] {
			continue
		}
		seen[port] = true
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return nil, fmt.Errorf("probing port %d: %w", port, err)
		}
		ports = append(ports, port)
	}
	return ports, nil
}
