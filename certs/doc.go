// Package certs serves the webhook's certificate and tells the API server which authority to trust.
//
// In mode self it issues an authority and a certificate itself, keeps both in one Secret that every
// replica reads live through the API, and writes the authority into the caBundle of the webhook
// configuration. What holds, and the test that guards it:
//
//   - Every write is conditional, so replicas that race end at one authority
//     (TestReplicasThatRaceEndAtOneAuthority).
//   - A certificate signed by a new authority is served only when every webhook's caBundle trusts that
//     authority (TestNextAcrossTheWholeLife, TestAReplacedAuthorityIsServedOnlyOnceTrusted).
//   - A Secret that was deleted or damaged is issued again (TestADamagedSecretHeals).
//   - Nothing is written while nothing differs (TestIdleWritesNothing).
//
// In mode cert-manager it only reads the Secret: cert-manager issues, and its injector writes the caBundle.
package certs
