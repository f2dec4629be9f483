import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readNumbers } from './device.ts'
import { ensureDeviceNode, isDeviceNode } from './device-node.ts'

const kvm = { name: 'kvm', path: '/dev/kvm' }
let sysfs: string
beforeEach(async () => {
  sysfs = await mkdtemp(join(tmpdir(), 'sysfs-'))
  await mkdir(join(sysfs, 'class/misc/kvm'), { recursive: true })
})
afterEach(() => rm(sysfs, { recursive: true }))

test('the numbers of a device are those of its driver', async () => {
  await writeFile(join(sysfs, 'class/misc/kvm/dev'), '10:232\n')
  expect(await readNumbers(sysfs, kvm)).toEqual({ major: 10, minor: 232 })
})

test('a device whose driver is not loaded has no numbers', async () => {
  expect(await readNumbers(sysfs, kvm)).toBeUndefined()
})

test('anything but numbers is an error with the path of the file', async () => {
  await writeFile(join(sysfs, 'class/misc/kvm/dev'), '10:x\n')
  await expect(readNumbers(sysfs, kvm)).rejects.toThrow(`could not read ${sysfs}/class/misc/kvm/dev`)
})

test.each<[string, string, number, number, boolean]>([
  ['the device', '/dev/null', 1, 3, true],
  ['another device', '/dev/null', 1, 5, false],
  ['a minor number that differs beyond eight bits', '/dev/null', 1, 0x103, false],
  ['a directory', '/dev', 1, 3, false],
  ['a path that does not exist', '/dev/null-1', 1, 3, false],
])('%s: whether %s is the node of %d:%d', async (_, path, major, minor, isNode) => {
  expect(await isDeviceNode(path, { major, minor })).toBe(isNode)
})

test('a node that is right remains', async () => {
  await expect(ensureDeviceNode('/dev/null', { major: 1, minor: 3 })).resolves.toBeUndefined()
})
