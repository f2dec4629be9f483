import type { Reach } from './reach.ts'

/**
 * A kind of text. Every text has a kind: how libvirt and QEMU use it (as a file name, as part of an option, as a string
 * that only the guest reads) decides which characters are safe. If libvirt's own schema has a pattern, ours is the same
 * or narrower.
 */
export interface Text {
  readonly kind: 'text'
  /** Completes "must be" in refusals, in `kubectl explain` and in the reference. */
  readonly allowed: string
  /**
   * Linear in the length of the text. Matches nothing that XML cannot represent, and control characters only in
   * `prose`.
   */
  readonly pattern: string
  /** In UTF-8, which the kernel, libvirt and QEMU count. */
  readonly maxBytes: number
  /** The minimum reach of a field with such a text, because of what the text names. */
  readonly reaches: Reach
}

const text = (allowed: string, pattern: string, maxBytes: number, reaches: Reach = 'guest'): Text => ({
  kind: 'text',
  allowed,
  pattern,
  maxBytes,
  reaches,
})

/** XML 1.0 cannot represent surrogates and these two characters, not even as references. */
const noXml = '\\ud800-\\udfff\\ufffe\\uffff'

/** C0 with NUL and line breaks, DEL, C1, and what XML cannot represent. */
export const control = `\\u0000-\\u001f\\u007f-\\u009f${noXml}`

/** Text for people. libvirt stores it and does nothing else with it. */
export const prose = text(
  'text without control characters other than tabs and line breaks',
  `^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f${noXml}]*$`,
  65_536,
)

/** A value that is passed as data: in JSON, or as one argument of QEMU with libvirt's escaping. */
export const line = (maxBytes = 1024): Text => text('one line without control characters', `^[^${control}]*$`, maxBytes)

/** libvirt writes it after `string=` without escaping, and QEMU ends the value at a single comma. */
export const firmwareValue = text(
  'one line without control characters, in which each comma is doubled: `a,,b` means `a,b`',
  `^(?:[^,${control}]|,,)*$`,
  65_536,
)

/** QEMU's FW_CFG_MAX_FILE_PATH is 56 with the terminating NUL; libvirt does not escape commas in the name either. */
export const firmwareName = text(
  'a name of printable ASCII characters without commas',
  '^[\\u0020-\\u002b\\u002d-\\u007e]+$',
  55,
)

/** Names of CPU features, machine types, aliases, layouts: libvirt's `featureName` and `aliasName`. */
export const identifier = text(
  'a name of letters, digits, `-`, `_` and `.`, without a leading `-` or `.`',
  '^[A-Za-z0-9_][A-Za-z0-9_.-]*$',
  255,
)

/**
 * An identifier that QEMU or libvirt uses in the name of a file or socket in the pod, or that names a file of the
 * image.
 */
export const fileIdentifier: Text = { ...identifier, reaches: 'pod' }

/** Models and drivers: libvirt's `zoneName`. */
export const word = text('a name of letters, digits, `-` and `_`', '^[A-Za-z0-9_-]+$', 255)

/** Drivers, snapshots, users and groups on a storage server: libvirt's `genericName`. */
export const genericName = text('a name of letters, digits, `-`, `_` and `+`', '^[A-Za-z0-9_+-]+$', 255)

/**
 * A component of a path: libvirt creates files and directories with this name in its own directories. Linux allows 255
 * bytes; libvirt appends up to 15, such as `_VARS.qcow2.new`.
 */
export const fileName = text(
  'a file name without `/` and control characters, neither `.` nor `..`',
  `^(?:[^/.${control}][^/${control}]*|\\.[^/.${control}][^/${control}]*|\\.\\.[^/${control}]+)$`,
  240,
  'pod',
)

/**
 * A file or device, as an absolute path or in a form that only libvirt or QEMU resolves, e.g. relative to one of their
 * directories.
 */
export const anyPath = text('a path without control characters', `^[^${control}]+$`, 4095, 'host')

/** libvirt's `timeZone` without dots and without a leading slash: libvirt sets TZ to it, and glibc opens the file. */
export const timeZone = text(
  'a time zone such as `Europe/Paris`: names of letters, digits, `_`, `+` and `-`, separated by single slashes',
  '^[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*$',
  255,
  'pod',
)

/** Linux: IFNAMSIZ is 16 with the terminating NUL. */
export const interfaceName = text(
  'a name of letters, digits, `-`, `_` and `.`, without a leading `-` or `.`',
  '^[A-Za-z0-9_][A-Za-z0-9_.-]*$',
  15,
  'pod',
)

/** libvirt's `profileName`; swtpm looks for `local:NAME` among the files of its directory. */
export const profileName = text(
  'a name of letters, digits, `-`, `.` and `:`, without a leading `-` or `.`',
  '^[A-Za-z0-9:][A-Za-z0-9.:-]*$',
  255,
  'pod',
)

/** libvirt's `diskTargetDev`. */
export const diskTarget = text(
  'a disk name: `fd`, `hd`, `sd`, `vd`, `xvd` or `ubd` and letters or digits, e.g. `vda`',
  '^(?:ioemu:)?(?:fd|hd|sd|vd|xvd|ubd)[A-Za-z0-9_]+$',
  64,
)

/** libvirt's `diskSerial`. */
export const diskSerial = text('letters, digits, spaces, `-`, `_`, `.` and `+`', '^[A-Za-z0-9_.+ -]+$', 255)

/** Fields of fixed width, such as the vendor of a SCSI disk. */
export const printable = (maxBytes: number): Text => text('printable ASCII characters', '^[ -~]*$', maxBytes)

/** Part of QEMU's `-cpu`, which has no escaping. */
export const cpuVendor = text('12 characters without commas and control characters', `^[^,${control}]{12}$`, 48)
export const hypervisorVendor = text(
  'at most 12 characters without commas and control characters',
  `^[^,${control}]{0,12}$`,
  48,
)

/**
 * Port numbers of virtio-serial and CCID controllers, and libvirt's `usbPort` in its only spelling: libvirt reads
 * `02` and `2.0` as `2`.
 */
export const busPort = text(
  'a port number, or a USB port below hubs such as `1.2`, without leading zeros',
  '^(?:0|[1-9][0-9]{0,2}(?:\\.[1-9][0-9]{0,2}){0,3})$',
  32,
)

/** libvirt's `usbVersion`; -1 means any. */
export const usbVersion = text('a version such as `1.10`, or `-1` for any', '^(?:[0-9]{1,2}\\.[0-9]{1,2}|-1)$', 5)

export const bootParameter = text('letters, digits, dots and spaces', '^[A-Za-z0-9. ]+$', 8)

export const fileMode = text('an octal file mode such as `0644`', '^(?:0[0-7]{3}|[0-7]{1,3})$', 4)

/** libvirt's patterns: those of RFC 6265 with a few more characters. */
export const cookieName = text(
  "the name of a cookie: letters, digits and !#$%&'*+-.^_`|~",
  "^[!#$%&'*+\\-.0-9A-Z\\^_`a-z\\|~]+$",
  255,
)
export const cookieValue = text(
  'the value of a cookie: no spaces, commas, semicolons, backslashes or control characters',
  '^"?[!#$%&\'()*+\\-./0-9:>=<?@A-Z\\^_`\\[\\]a-z\\|~]+"?$',
  4096,
)

export const environmentName = text(
  'a name of letters, digits and `_`, without a leading digit',
  '^[A-Za-z_][A-Za-z0-9_]*$',
  255,
)
