/** Where the launcher and libvirt have their own files, in the pod of each VM. */
export const launcherDirectory = '/var/run/virtset/private'

/**
 * libvirt's directory for the sockets of channels below the launcher's, as libvirt 11.3 makes it for an unprivileged
 * daemon.
 */
export const channelDirectory = 'run/libvirt/qemu/run/channel'

/** Linux: `sun_path` has 108 bytes with the final NUL. */
const maxSocketPath = 107

/** libvirt cuts the name of a VM to so many bytes in names of its own. */
const maxShortName = 20

/**
 * How many bytes the name of a channel may have that is a socket in the pod: DIRECTORY/ID-SHORTNAME/CHANNEL, where the
 * ID is 1, since the pod has one VM.
 * @param domainName the object's own where absent, of one byte at least
 */
export const longestChannelName = (domainName = '-'): number =>
  maxSocketPath -
  `${launcherDirectory}/${channelDirectory}/1-/`.length -
  Math.min(Buffer.byteLength(domainName), maxShortName)
