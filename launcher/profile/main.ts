import { spawn } from 'node:child_process'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { systemClock } from '../../runtime/clock.ts'
import { createLogger } from '../../runtime/log.ts'
import { Client } from '../libvirt/client.ts'
import { keepLibvirtd } from '../libvirtd.ts'
import { qemuConf } from '../qemu-conf.ts'
import { type Settings, readSettings } from '../settings.ts'
import { askProfile } from './ask.ts'

/**
 * Finds out once what the launcher's libvirt and QEMU can do on this node, writes it to the file that is named, and ends. The handler, which
 * has neither, publishes it.
 */
async function main(settings: Settings, file: string | undefined): Promise<void> {
  if (file === undefined) throw new Error('name the file to write')
  const logger = createLogger({ process: 'profile' })
  for (const directory of settings.directories) await mkdir(directory, { recursive: true, mode: 0o700 })
  await writeFile(settings.qemuConf, qemuConf)
  const daemon = keepLibvirtd({
    clock: systemClock,
    log: (message, fields) => logger.info(fields, message),
    spawn: () => spawn('libvirtd', [], { env: settings.libvirtd, stdio: ['ignore', 'inherit', 'inherit'] }),
  })
  const client = new Client({
    dial: () => dial(settings.libvirtSocket),
    uri: 'qemu:///session',
    clock: systemClock,
    onHint: () => {},
  })
  client.start()
  try {
    const profile = await askProfile(client, { cache: settings.libvirtd['XDG_CACHE_HOME'] ?? '', root: '/' })
    await writeFile(`${file}.tmp`, JSON.stringify(profile))
    await rename(`${file}.tmp`, file)
    const { version, accelerators } = profile.capabilities
    logger.info({ libvirt: profile.libvirtVersion, qemu: version, accelerators: Object.keys(accelerators) }, 'found')
  } finally {
    client.close()
    await daemon.stop()
  }
}

function dial(path: string): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    socket.once('connect', () => resolve(socket))
    socket.once('error', reject)
  })
}

await main(readSettings(process.env), process.argv[2])
