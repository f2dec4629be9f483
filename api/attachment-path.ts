/** The paths in a pod that serves a claim to a launcher. */
export const attachmentPaths = {
  /** Contains the socket, until the handler moves it into the launcher pod. */
  sockets: '/var/run/virtset/socket',
  /** The claim, if it is a file system. */
  directory: '/var/run/virtset/volume',
  /** The claim, if it is a block device. */
  device: '/var/run/virtset/block',
} as const

/** The volume of its socket, and the socket in it. */
export const attachmentSocketVolume = 'socket'
export const attachmentSocketName = 'nbd.sock'

/** What its container runs, of the launcher's image. A policy admits nothing else. */
export const attachmentCommand: readonly string[] = ['/usr/bin/tini', '--', '/usr/local/bin/serve-volume']
