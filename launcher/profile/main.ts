import { rename, writeFile } from 'node:fs/promises'
import { systemClock } from '../../runtime/clock.ts'
import { createLogger } from '../../runtime/log.ts'
import { type Settings, readSettings } from '../settings.ts'
import { startLibvirt } from '../start-libvirt.ts'
import { queryProfile } from './query.ts'

/**
 * Writes the capabilities that the launcher's libvirt and QEMU have on this node to the file in the first argument, and
 * exits. The handler, which has neither, publishes them.
 */
async function main(settings: Settings, file: string | undefined): Promise<void> {
  if (file === undefined) throw new Error('the first argument must be the file to write')
  const log = createLogger({ process: 'profile' })
  const { client, daemon } = await startLibvirt(settings, {
    clock: systemClock,
    log,
    onHint: () => {},
  })
  client.start()
  try {
    const profile = await queryProfile(client, { cache: settings.libvirtd['XDG_CACHE_HOME'] ?? '', root: '/' })
    await writeFile(`${file}.tmp`, JSON.stringify(profile))
    await rename(`${file}.tmp`, file)
    const { version, accelerators } = profile.capabilities
    log.info(
      { libvirt: profile.libvirtVersion, qemu: version, accelerators: Object.keys(accelerators) },
      'wrote the profile',
    )
  } finally {
    client.close()
    await daemon.stop()
  }
}

await main(readSettings(process.env), process.argv[2])
