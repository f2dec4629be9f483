import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { run } from '../../cluster/command.ts'
import { validateDomain } from '../../api/domain/validate.ts'
import { domains } from '../arbitraries/domain.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installKinds } from './kinds.ts'

let api: TestApiServer
const kubectl = (...rest: string[]) => run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest])

beforeAll(async () => {
  api = await startApiServer()
  await installKinds(api)
})
afterAll(() => api?.stop())

/** These domains as the API server would store them without webhooks. */
const stored = async (...specs: unknown[]): Promise<unknown[]> => {
  const items = specs.map((domain, index) => ({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: `vm-${index}`, namespace: 'default' },
    spec: { domain },
  }))
  const file = join(api.directory, 'vms.json')
  await writeFile(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
  const lines = await kubectl('create', '--dry-run=server', '-o', 'jsonpath={.spec.domain}{"\\n"}', '-f', file)
  return lines
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

describe('the schema of a domain, on a real API server', () => {
  test('stores domains generated from the description unchanged', async () => {
    const samples = fc.sample(domains({ fields: 8 }), { numRuns: 150, seed: 1 })
    expect(await stored(...samples)).toEqual(samples)
  })

  test.each([
    ['a boolean', { os: { bootmenu: { enable: true } } }],
    ['the word for it', { os: { bootmenu: { enable: 'yes' } } }],
    ['a boolean that YAML made of a word', { devices: { disks: [{ driver: { detectZeroes: true } }] } }],
    ['a number', { memory: { value: 64 } }],
    ['a decimal string', { memory: { value: '64' } }],
    ['hex', { devices: { disks: [{ address: { type: 'pci', slot: '0x04' } }] } }],
    ['the short form of a list of one', { devices: { disks: [{ source: { host: { name: 'a', port: '3260' } } }] } }],
    ['a backing store of a backing store', { devices: { disks: [{ backingStore: { backingStore: { index: 1 } } }] } }],
    ['an unknown field, which is the webhook’s to refuse', { cpu: { cores: 4 } }],
  ])('accepts %s', async (_, domain) => expect(await stored(domain)).toEqual([domain]))

  test.each([
    ['a value that is not in the enumeration', { cpu: { mode: 'hostmodel' } }],
    ['a word that is not a boolean', { os: { bootmenu: { enable: 'maybe' } } }],
    ['a number for a boolean', { os: { bootmenu: { enable: 1 } } }],
    ['a fraction', { memory: { value: 1.5 } }],
    ['a number for a size', { memory: 64 }],
    ['an object for a list', { clock: { timers: {} } }],
    ['a number for text', { title: 1 }],
  ])('refuses %s, as the webhook does', async (_, domain) => {
    expect(validateDomain(domain)).not.toEqual([])
    await expect(stored(domain)).rejects.toThrow(/spec\.domain/)
  })
})
