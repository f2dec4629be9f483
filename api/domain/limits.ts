/** How long the lists of a domain may be. A list with a limit of its own states it where it is described. */

/**
 * For every list without a limit of its own. A PCI domain has 256 buses, and libvirt gives each PCI Express device a
 * bus of its own. Buses of other kinds have fewer places: USB 127, ISA 4 serial ports.
 */
export const defaultMaxItems = 256

/**
 * Disks, controllers and host devices do not all take a PCI bus: SCSI units share one controller, USB devices one bus.
 */
export const maxOnSharedBuses = 512

/** The most that a machine type of QEMU 10 takes (q35). */
export const maxVcpus = 4096

/** QEMU's MAX_NODES. */
export const maxNumaCells = 128

/** QEMU has no limit. This is more threads than a node has CPUs. */
export const maxIothreads = 1024

/** libvirt knows some 700 features of x86 CPUs, and as many capabilities of QEMU. */
export const maxFeatures = 1024

/** A VLAN tag has 12 bits. */
export const maxVlans = 4096

/** Each NUMA cell with each other one, for a cache level and a kind of access. */
export const maxNumaPairs = 4096

/** QEMU's MAX_PARALLEL_PORTS. */
export const maxParallels = 3

/** libvirt takes one TPM, and one proxy beside it. */
export const maxTpms = 2

/**
 * In characters, for each string without a limit of its own. The longest known one, the session of an encrypted guest,
 * has a few thousand.
 */
export const maxTextLength = 65_536

/** In characters: `metadata`, the XML of applications. */
export const maxForeignLength = 131_072
