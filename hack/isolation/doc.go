// Package isolation gives a program a room of its own on this host: namespaces, a folder and cgroups. Processes, mounts,
// interfaces and firewall rules live in the namespaces and end with their first process, whatever happens. Only the folder
// and, where there are any, the cgroups outlive them: they carry one name, are removed by whoever made the room, and, where that was killed, by
// the next one's Sweep.
package isolation
