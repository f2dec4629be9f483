/** The maximum lengths of the lists of a domain. A list with a limit of its own states it in its description. */

/**
 * For every list without a limit of its own. A PCI domain has 256 buses, and libvirt gives each PCI Express device a
 * bus of its own. Other buses have fewer places: USB has 127, ISA has 4 serial ports.
 */
export const defaultMaxItems = 256

/**
 * Not every disk, controller or host device needs a PCI bus: SCSI units share a controller, USB devices share a bus.
 */
export const maxOnSharedBuses = 512

/** The maximum of any machine type of QEMU 10 (q35). */
export const maxVcpus = 4096

/** QEMU's MAX_NODES. */
export const maxNumaCells = 128

/** QEMU has no limit. This exceeds the number of CPUs of any node. */
export const maxIothreads = 1024

/** libvirt knows about 700 features of x86 CPUs, and as many capabilities of QEMU. */
export const maxFeatures = 1024

/** A VLAN tag has 12 bits. */
export const maxVlans = 4096

/** Each pair of NUMA cells, per cache level and kind of access. */
export const maxNumaPairs = 4096

/** QEMU's MAX_PARALLEL_PORTS. */
export const maxParallels = 3

/** libvirt allows one TPM, and one TPM proxy. */
export const maxTpms = 2

/**
 * In characters, for each string without a limit of its own. The longest known one, the session of an encrypted guest,
 * has a few thousand.
 */
export const maxTextLength = 65_536

/** In characters: `metadata`, the XML of applications. */
export const maxForeignLength = 131_072

/** In characters: a set of CPUs or NUMA nodes. Every second one of 4096 CPUs takes 10,000. */
export const maxCpusetLength = 16_384
