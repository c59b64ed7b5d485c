// Package binary builds the programs of a control plane from pinned Go modules (test/rig/build/*)
// and keeps them in a cache, keyed by version, checksums and build flags.
package binary
