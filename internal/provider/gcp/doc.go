// Package gcp runs proxies as virtual machines on Compute Engine.
//
// An instance is a VM and its boot disk, which has the VM's name and marks, too, and normally goes with it. The ID is
// projects/<project>/zones/<zone>/instances/<name>. What runs on the VM is the business of its image and cloud-init.
//
//   - Create sends one insert under an idempotency token derived from UID and attempt, and does not wait for its operation.
//     Compute Engine notes the token as clientOperationId at the operation, where any process finds it again: how a creation
//     ended reaches the status without anybody having waited for it.
//   - Get reads the VM. Where there is none, it reads the creation's operation, then the VM once more, and the disk: what is
//     absent in the last reading is not the effect of something that had ended before. That the operations of the zone
//     can be listed proves that project and zone are there and can be read; a 404 about them is not one about the VM.
//     An operation that has ended is proof as long as the API still knows its token; after that only time is. In a zone that is
//     not in the list of the project's zones, there can be nothing.
//   - Delete names the VM by its numeric ID, which was read together with the marks. While a deletion is under way it sends
//     no other; one that failed is reported, and another is sent.
//   - ListByTag reads disks before VMs, all zones at a time, 500 to a page: four calls for 1,000 instances. Zones that cannot
//     be reached are named as unread.
//   - Check lists one VM, unless ListByTag has just listed all.
//
// # Marks
//
// UID, installation, cluster, attempt and spec mark are labels, which they fit as they are. Namespace and name of the Proxy
// may hold more than a label can; they are in the description.
//
// # Firewall
//
// With firewall.manage, one rule admits the source ranges to the ports that instances with the network tag use. Its name
// follows from entry, network and tag. Create adds its port before it sends the VM; each list sets the rule to what is needed,
// and removes it with the last instance. What a hand has changed is set right within ten minutes. A rule of that name that does
// not carry this installation's marks is left alone, and then nothing is created.
//
// What gets an external address has to be restricted by credentials, by that rule or, as the entry declares, by rules that
// others keep; else it is refused.
package gcp
