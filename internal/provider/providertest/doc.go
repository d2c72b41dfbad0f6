// Package providertest is what the provider contract is tested with.
//
//   - Run checks every rule of the contract (see Rules) against the provider that a Harness makes. It reports through
//     T, so that the suite itself can be tested: a Recorder shows which rule a broken provider turns red.
//   - Backend is a cloud in memory with the clock as its only engine: creations and deletions that take effect late or
//     fail late, calls whose answer is lost, lists that lag, zones that cannot be read, throttling, quotas, instances
//     that stop, vanish or come back elsewhere, and strangers. Stateful is a correct provider on it; it remembers
//     nothing, so making another one on the same Backend is a restart.
//   - Fake is a provider whose answers a test scripts call by call; unscripted, it behaves correctly.
package providertest
