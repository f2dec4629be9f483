import { join } from 'node:path'
import { hugePagesDirectory, launcherDirectory } from '../api/launcher-directory.ts'
import { deviceVariables, type DeviceVariables } from './host-device.ts'
import type { VolumeDirectories } from './volume.ts'

/** The launcher's paths in the pod. */
export interface Settings {
  /** The volume that the handler can access. */
  readonly socketDirectory: string
  readonly volumes: VolumeDirectories
  /** The paths by which QEMU connects to the pods that serve attached volumes. */
  readonly attachedSockets: string
  /** The environment of libvirtd, with its directories. */
  readonly libvirtd: { readonly [name: string]: string }
  readonly libvirtSocket: string
  /** libvirtd's files about the running domain. */
  readonly libvirtState: string
  readonly qemuConf: string
  /** Contains a mounted file system for each size of huge pages; absent in most pods. */
  readonly hugePages: string
  /** libvirtd's directory for the variables of UEFI firmware, which it creates. */
  readonly nvram: string
  /** Created before libvirtd starts. */
  readonly directories: readonly string[]
  /**
   * The directories in which libvirtd and QEMU can remove files: every writable directory of the pod except the
   * socket's.
   */
  readonly removable: readonly string[]
  readonly vmUID: string | undefined
  readonly deviceVariables: DeviceVariables
  /** Contains what DRA drivers describe; absent in most pods. */
  readonly claimedDevices: string
  /** The container's view of its own cgroup. */
  readonly cgroup: string
  /** The kubelet copies the content of this file into the pod's status. */
  readonly terminationLog: string
}

/** Reads the container's environment. The defaults are those of the launcher's image. */
export function readSettings(env: { readonly [name: string]: string | undefined }): Settings {
  const run = env['VIRTSET_RUN_DIR'] ?? launcherDirectory
  const files = env['VIRTSET_VOLUMES_DIR'] ?? '/var/run/virtset/volumes'
  const at = (name: string) => join(run, name)
  return {
    socketDirectory: env['VIRTSET_SOCKET_DIR'] ?? '/var/run/virtset/sockets',
    volumes: {
      files,
      blocks: env['VIRTSET_BLOCK_DIR'] ?? '/var/run/virtset/block',
      images: env['VIRTSET_IMAGES_DIR'] ?? '/var/run/virtset/images',
      sources: env['VIRTSET_SOURCES_DIR'] ?? '/var/run/virtset/sources',
      scratch: env['VIRTSET_TMP_DIR'] ?? '/tmp',
    },
    attachedSockets: at('attached'),
    libvirtd: {
      PATH: env['PATH'] ?? '/usr/sbin:/usr/bin:/sbin:/bin',
      HOME: run,
      XDG_RUNTIME_DIR: at('run'),
      XDG_CONFIG_HOME: at('config'),
      XDG_CACHE_HOME: at('cache'),
      XDG_DATA_HOME: at('data'),
      TMPDIR: at('tmp'),
    },
    libvirtSocket: join(at('run'), 'libvirt', 'libvirt-sock'),
    libvirtState: join(at('run'), 'libvirt', 'qemu', 'run'),
    qemuConf: join(at('config'), 'libvirt', 'qemu.conf'),
    hugePages: hugePagesDirectory,
    nvram: join(at('config'), 'libvirt', 'qemu', 'nvram'),
    directories: [at('run'), join(at('config'), 'libvirt'), at('cache'), at('data'), at('tmp')],
    removable: [run, files, env['VIRTSET_TMP_DIR'] ?? '/tmp', '/run/lock', '/dev/shm', hugePagesDirectory],
    vmUID: env['VIRTSET_VM_UID'],
    deviceVariables: deviceVariables(env),
    claimedDevices: env['VIRTSET_CLAIMED_DEVICES_DIR'] ?? '/var/run/kubernetes.io/dra-device-attributes',
    cgroup: env['VIRTSET_CGROUP_DIR'] ?? '/sys/fs/cgroup',
    terminationLog: env['VIRTSET_TERMINATION_LOG'] ?? '/dev/termination-log',
  }
}
