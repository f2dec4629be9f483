import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../../runtime/clock.ts'
import { createLogger } from '../../runtime/log.ts'
import { readCapabilities } from '../capabilities-cache.ts'
import { type Settings, readSettings } from '../settings.ts'
import { startLibvirt } from '../start-libvirt.ts'
import { queryProfile } from './query.ts'

/**
 * Writes what the launcher's libvirt and QEMU can do on this node to files in the directory of the first argument, and
 * exits. The handler, which has neither, reads them:
 *
 *     profile.json              published as the node's profile. Not written with `--cache-only`
 *     capabilities-kvm.json     libvirtd's cache, for the launchers of VMs of `type: kvm`; if this container has KVM
 *     capabilities-qemu.json    the same for `type: qemu`; if it does not
 */
async function main(settings: Settings, [directory, option]: readonly string[]): Promise<void> {
  if (directory === undefined) throw new Error('the first argument must be the directory to write to')
  const log = createLogger({ process: 'profile' })
  const { client, daemon } = await startLibvirt(settings, {
    clock: systemClock,
    log,
    onHint: () => {},
  })
  client.start()
  const cache = settings.libvirtd['XDG_CACHE_HOME'] ?? ''
  try {
    const profile = await queryProfile(client, { cache, root: '/' })
    const { version, accelerators } = profile.capabilities
    const type = accelerators.kvm === undefined ? 'qemu' : 'kvm'
    await write(directory, `capabilities-${type}.json`, await readCapabilities(cache))
    if (option !== '--cache-only') await write(directory, 'profile.json', profile)
    log.info(
      { libvirt: profile.libvirtVersion, qemu: version, accelerators: Object.keys(accelerators) },
      'wrote the profile',
    )
  } finally {
    client.close()
    await daemon.stop()
  }
}

async function write(directory: string, name: string, value: object): Promise<void> {
  const unfinished = join(directory, `${name}.tmp`)
  await writeFile(unfinished, JSON.stringify(value))
  await rename(unfinished, join(directory, name))
}

await main(readSettings(process.env), process.argv.slice(2))
