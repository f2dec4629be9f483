import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readCapabilities, storeCapabilities } from './capabilities-cache.ts'

const name = `${'a'.repeat(64)}.xml`
const text = '<qemuCaps><arch>x86_64</arch></qemuCaps>'
let home: string
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'cache-'))
})
afterEach(() => rm(home, { recursive: true }))

test('what one libvirtd has cached is stored where another one looks for it', async () => {
  await storeCapabilities(home, { name, text })
  expect(await readCapabilities(home)).toEqual({ name, text })
  const { mode } = await stat(join(home, 'libvirt/qemu/cache/capabilities', name))
  expect(mode & 0o777).toBe(0o600)
})

test('the cache of the QEMU for another architecture is not the one that is read', async () => {
  await storeCapabilities(home, { name: `${'0'.repeat(64)}.xml`, text: '<qemuCaps><arch>i686</arch></qemuCaps>' })
  await storeCapabilities(home, { name, text })
  expect(await readCapabilities(home)).toEqual({ name, text })
})

test('what libvirtd has cached itself remains', async () => {
  await storeCapabilities(home, { name, text })
  await storeCapabilities(home, { name, text: 'other' })
  expect(await readCapabilities(home)).toEqual({ name, text })
})

test('nothing is read before libvirtd has queried QEMU', async () => {
  await expect(readCapabilities(home)).rejects.toThrow('ENOENT')
})
