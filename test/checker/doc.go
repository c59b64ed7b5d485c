// Package checker judges a roll from the outside. It watches the pods, StatefulSets and slot Leases of
// one namespace through the API, and knows which nodes lacked a ready pod at each resourceVersion.
//
// It shares no code with what it judges (TestImportsNothingOfOurs), and a judgement counts only if it
// saw everything: each watch goes on from the last resourceVersion that it delivered, every event must
// fit the object's history, and at the end the replayed state must equal a fresh LIST. Otherwise
// Report.Missed says what is missing and Verdict fails (TestGapIsMissed).
//
// Events of the three watches are put in the order of their resourceVersions, which one etcd numbers
// across all kinds (TestOrderIsThatOfResourceVersions).
package checker
