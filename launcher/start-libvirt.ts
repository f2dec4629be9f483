import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import { Client, type ClientOptions } from './libvirt/client.ts'
import { isLandlockSupported, landlockArguments } from './landlock.ts'
import { keepLibvirtd, type Daemon } from './libvirtd.ts'
import { raiseOomScore, readMemoryUse } from './out-of-memory.ts'
import { hugePagesConf, qemuConf } from './qemu-conf.ts'
import type { Settings } from './settings.ts'

/**
 * Creates the directories of the pod's libvirtd, starts it, and returns a client whose calls wait until it responds.
 */
export async function startLibvirt(
  settings: Settings,
  options: {
    readonly clock: Clock
    readonly log: Logger
    readonly onHint: ClientOptions['onHint']
  },
): Promise<{ readonly client: Client; readonly daemon: Daemon }> {
  const { clock, log, onHint } = options
  for (const directory of settings.directories) await mkdir(directory, { recursive: true, mode: 0o700 })
  await writeFile(settings.qemuConf, qemuConf + hugePagesConf(await hugePageMounts(settings.hugePages)))
  const memory = await readMemoryUse(settings.cgroup)
  const removable = settings.removable.filter((directory) => existsSync(directory))
  const isConfined = await isLandlockSupported(removable)
  if (!isConfined) log.warn('Landlock is not available: QEMU can remove the socket of the launcher')
  const [command, args] = isConfined ? ['setpriv', [...landlockArguments(removable), 'libvirtd']] : ['libvirtd', []]
  const daemon = keepLibvirtd({
    clock,
    log,
    spawn: () => {
      const child = spawn(command, args, { env: settings.libvirtd, stdio: ['ignore', 'inherit', 'inherit'] })
      // QEMU inherits the score. libvirtd has it too, but is smaller than QEMU, and is restarted if killed.
      if (child.pid !== undefined) {
        raiseOomScore(child.pid, memory).catch((error: unknown) =>
          log.warn({ err: error }, 'could not raise oom_score_adj'),
        )
      }
      return child
    },
  })
  const client = new Client({
    dial: () => dial(settings.libvirtSocket),
    uri: 'qemu:///session',
    clock,
    onHint,
    onHung: () => daemon.endHung(),
  })
  return { client, daemon }
}

async function hugePageMounts(directory: string): Promise<string[]> {
  if (!existsSync(directory)) return []
  return (await readdir(directory)).toSorted().map((name) => join(directory, name))
}

function dial(path: string): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    socket.once('connect', () => resolve(socket))
    socket.once('error', reject)
  })
}
