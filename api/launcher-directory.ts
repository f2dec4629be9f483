/** The directory in the pod of each VM where the launcher and libvirt store their own files. */
export const launcherDirectory = '/var/run/virtset/private'

/** The directory in the pod with a file system of huge pages for each size that the VM uses. */
export const hugePagesDirectory = '/var/run/virtset/hugepages'

/**
 * libvirt's directory for the sockets of channels, relative to the launcher's, as libvirt 11.3 creates it for an
 * unprivileged daemon.
 */
const channelDirectory = 'run/libvirt/qemu/run/channel'

/** Linux: `sun_path` has 108 bytes with the final NUL. */
const maxSocketPath = 107

/** libvirt truncates the name of a VM to this many bytes in its own file names. */
const maxShortName = 20

/**
 * The maximum length in bytes of the name of a channel that is a socket in the pod. Its path is
 * DIRECTORY/ID-SHORTNAME/CHANNEL; the ID is 1, since the pod has one VM.
 * @param domainName if absent, the object's own name, of which only one byte is assumed
 */
export const longestChannelName = (domainName = '-'): number =>
  maxSocketPath -
  `${launcherDirectory}/${channelDirectory}/1-/`.length -
  Math.min(Buffer.byteLength(domainName), maxShortName)
