import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { readCapabilities } from '../../launcher/capabilities-cache.ts'
import type { CapabilitiesCache } from '../../runtime/launcher-api.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { smallVm } from './vm.ts'

/** A launcher that is given the capabilities which another one of the same node has cached. */
let launcher: RunningLauncher
let cache: CapabilitiesCache

const home = () => join(launcher.volumes, '../private/cache')
/** Identifies one version of the file: libvirtd writes a file again that it does not accept. */
const versionOf = async ({ name }: CapabilitiesCache) =>
  (await stat(join(home(), 'libvirt/qemu/cache/capabilities', name), { bigint: true })).mtimeNs

beforeAll(async () => {
  launcher = await startLauncher()
  await launcher.put(smallVm())
  cache = await readCapabilities(home())
  await launcher.stop()
})
afterEach(() => launcher.stop())

/** Sends a cache before the VM; returns whether libvirtd has accepted it. */
async function isAccepted(sent: CapabilitiesCache): Promise<boolean> {
  launcher = await startLauncher()
  expect(await launcher.ask('PUT', '/capabilities', sent)).toEqual({ status: 202, body: {} })
  const before = await versionOf(sent)
  expect(await launcher.put(smallVm())).toMatchObject({ phase: 'Running' })
  return (await versionOf(sent)) === before
}

test('its libvirtd does not query QEMU again', async () => {
  expect(await isAccepted(cache)).toBe(true)
})

test.each([
  ['of another build of libvirt', cacheWith(/<selfctime>\d+</, '<selfctime>1<')],
  ['that is not XML', () => ({ ...cache, text: '<arch>x86_64</arch>' })],
])('a cache %s is ignored, and the VM runs', async (_, sent) => {
  expect(await isAccepted(sent())).toBe(false)
})

function cacheWith(pattern: RegExp, replacement: string): () => CapabilitiesCache {
  return () => {
    expect(cache.text).toMatch(pattern)
    return { ...cache, text: cache.text.replace(pattern, replacement) }
  }
}
