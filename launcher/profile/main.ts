import { rename, writeFile } from 'node:fs/promises'
import { systemClock } from '../../runtime/clock.ts'
import { createLogger } from '../../runtime/log.ts'
import { type Settings, readSettings } from '../settings.ts'
import { startLibvirt } from '../start-libvirt.ts'
import { askProfile } from './ask.ts'

/**
 * Finds out once what the launcher's libvirt and QEMU can do on this node, writes it to the file that is named, and ends. The handler, which
 * has neither, publishes it.
 */
async function main(settings: Settings, file: string | undefined): Promise<void> {
  if (file === undefined) throw new Error('name the file to write')
  const logger = createLogger({ process: 'profile' })
  const { client, daemon } = await startLibvirt(settings, {
    clock: systemClock,
    log: (message, fields) => logger.info(fields, message),
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

await main(readSettings(process.env), process.argv[2])
