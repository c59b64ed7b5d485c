// Package product builds Paceline, installs its chart with Helm and runs its controller on a rig, as
// an account that has nothing but what the chart grants.
package product
