import { chown, mkdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { qemuConf } from '../../launcher/qemu-conf.ts'
import { confine, libvirtRootfs, makeDevice, makeOwned, makeRunDirectory, uid } from './rootfs.ts'
import { eventually } from '../until.ts'

/** A running libvirtd, and the resources that it shares with the test. */
export interface Libvirtd {
  /** libvirtd's socket, as seen by the test; the URI to open is `qemu:///session`. */
  readonly socket: string
  /** The same socket, as seen in the root file system. */
  readonly insideSocket: string
  readonly rootfs: string
  /** Its XDG_CACHE_HOME, as seen by the test. */
  readonly cache: string
  /** Writes a file that QEMU may read and write, and returns its path for the domain. */
  writeFile(name: string, content: Uint8Array | string): Promise<string>
  /** Kills the daemon with SIGKILL and starts a new one. QEMU continues to run. */
  killDaemon(): Promise<void>
  /** Kills every QEMU with SIGKILL. */
  killGuests(): Promise<void>
  stop(): Promise<void>
}

/**
 * A real libvirtd in the root file system, as in a launcher pod: UID 107, no capabilities, session URI, the launcher's
 * qemu.conf. Measured on 2 cores: 0.25 s until it responds, 0.9 s for the first define (libvirt probes QEMU), 3 ms for
 * later ones, 0.6 s for a start, 20 ms for `stop`. Start one per test file, not per test. It leaves nothing behind,
 * even if the test process is killed.
 * @param options withKvm: creates a KVM device node of its own, because the host's may deny access to UID 107
 */
export async function startLibvirtd(options: { withKvm?: boolean } = {}): Promise<Libvirtd> {
  const rootfs = libvirtRootfs()
  const directory = await makeRunDirectory(rootfs)
  const configuration = await makeOwned(join(directory.outside, 'libvirt'))
  await writeFile(join(configuration, 'qemu.conf'), qemuConf)
  const binds = options.withKvm === true ? { '/dev/kvm': await makeDevice(directory.outside, 'kvm') } : {}
  const daemon = confine({ rootfs, directory, script: 'while :; do libvirtd; done', binds })
  const log: string[] = []
  daemon.process.stderr?.on('data', (chunk: Buffer) => log.push(chunk.toString()))
  const socket = join(configuration, 'libvirt-sock')
  const kill = async (command: string) => {
    for (const pid of await daemon.pids(command)) process.kill(pid, 'SIGKILL')
  }
  try {
    await eventually('libvirtd answers', () => answers(socket))
  } catch (error) {
    await daemon.stop()
    throw new Error(`libvirtd logged: ${log.join('')}`, { cause: error })
  }
  return {
    socket,
    insideSocket: join(directory.inside, 'libvirt', 'libvirt-sock'),
    rootfs,
    cache: directory.outside,
    writeFile: async (name, content) => {
      const path = join(directory.outside, name)
      await mkdir(join(path, '..'), { recursive: true })
      await writeFile(path, content)
      await chown(path, uid, uid)
      return join(directory.inside, name)
    },
    killDaemon: () => kill('libvirtd'),
    // The kernel truncates a command's name to 15 bytes.
    killGuests: () => kill('qemu-system-x86'),
    stop: () => daemon.stop(),
  }
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
    socket.once('close', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}
