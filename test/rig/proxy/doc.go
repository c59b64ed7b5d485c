// Package proxy stands between one client and the API server. A test sees each write that passes, can
// stop it before the API server or on the way back, and can hold back what a watch of one kind brings.
package proxy
