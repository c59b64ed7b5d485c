// Package config reads the controller's configuration file.
//
// The file is strict YAML: an unknown key, a key stated twice and a value of the wrong kind are
// refused, and all of them are reported at once, each on a line of its own:
//
//	config /etc/paceline/config.yaml: rollout.driftUpdateBudgetPercent: 250: want an integer from 0 to 100
//
// Nothing is converted silently: "25", 25.0 and "25%" are no integers (TestAWrongValueIsRefused).
// What the file leaves out has the value of [Default] (TestWhatIsLeftOutHasItsDefault).
package config
