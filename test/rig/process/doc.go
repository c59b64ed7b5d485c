// Package process starts the rig's processes and ends exactly those.
package process
