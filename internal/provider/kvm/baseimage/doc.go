// Package baseimage brings the images that VMs are made from into a host's storage pool, once per host and image.
//
// An image is downloaded in the background, streamed through the operator into a volume, verified, published, and never
// written again: the disks of running VMs are overlays on it.
//
// # Volumes
//
// libvirt cannot rename volumes, so one download makes two:
//
//	<prefix><sha256>.<start>.<random>.<format>        the data
//	<prefix><sha256>.<start>.<random>.<format>.ready  the marker
//
// The start is when the download began, in Unix seconds, twelve digits; the random part is eight hexadecimal digits; the
// format is qcow2 or raw. The data counts only together with its marker, which is created when length, checksum and format
// have been verified. The marker's capacity is the image's virtual size in bytes. It is sparse and costs nothing, and spares
// later processes reading the image. A marker without its data, or one without capacity, counts for nothing.
//
// # Several processes
//
//   - Where several copies are published, the one whose name sorts first counts, and none is ever removed: another may have
//     become the base of an overlay before.
//   - A download looks for published copies when it begins and once more right before it publishes. If it sees one, it removes
//     its own. Two that publish in the same instant leave a copy that is not used any more; that costs space, no VM.
//   - Data without a marker is what an interrupted download left, or what another process is writing right now. They cannot
//     be told apart but by their age: no download publishes later than two hours after its start (Whole), and data without a
//     marker is removed by the next download of its checksum when it is three hours old (Abandoned). The hour between
//     is for clocks that differ. Were a writer stopped for longer and went on, its marker would find no data, and not count.
//   - What a process knows it has left itself, it removes at its next try. While Unfinished copies of one checksum are
//     younger than that, no other is begun: a process that dies in every download shall not fill the pool.
//   - Once the creation of a marker was sent and its answer did not come, somebody may be using the copy. It is not removed;
//     the next try publishes it without downloading it again.
//
// Whoever removes a marker by hand makes its data abandoned, although overlays may still need it.
//
// # What is refused
//
// The checksum says that the image is the one the administrator meant, not that it is harmless. A qcow2 image that names
// other files (a backing file, an external data file), that is encrypted or marked corrupt, or that has features unknown
// here is refused, and so is a raw image that begins like a qcow2 one: somebody who probes it would follow its backing file.
// The header is checked before a volume is made.
package baseimage
