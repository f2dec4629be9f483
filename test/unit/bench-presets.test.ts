import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

let folder = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'virtset-bench-'))
  await writeFile(join(folder, 'vm.yaml'), `---\n${JSON.stringify(vm)}\n`)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const vm = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', labels: { app: 'web', size: 'small', os: 'linux' } },
  spec: { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } },
}

const preset = (name: string, matchLabels: object, domain: object) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachinePreset',
  metadata: { name },
  spec: { selector: { matchLabels }, domain },
})

const presets = [
  preset('serial', { app: 'web' }, { devices: { serials: [{ type: 'pty' }] } }),
  preset('small', { size: 'small' }, { vcpu: { value: 2 } }),
  preset('clock', { os: 'linux' }, { clock: { offset: 'utc' } }),
  ...Array.from({ length: 997 }, (_, index) =>
    preset(`other-${index}`, { app: `other-${index}` }, { vcpu: { value: 4 } }),
  ),
]

test.each([
  ['presets.yaml', presets.map((one) => `---\n${JSON.stringify(one)}\n`).join('')],
  ['list.yaml', JSON.stringify({ apiVersion: 'v1', kind: 'List', items: presets })],
  ['list.json', JSON.stringify({ apiVersion: 'v1', kind: 'List', items: presets })],
])(
  'the bench of presets runs on given manifests: %s',
  async (name, text) => {
    const file = join(folder, name)
    await writeFile(file, text)
    const given = ['bench/presets.ts', '--vm', join(folder, 'vm.yaml'), '--presets', file, '--json']
    const { stdout } = await promisify(execFile)(process.execPath, given)
    const printed = JSON.parse(stdout)
    expect({ ...printed, usPerVm: typeof printed.usPerVm }).toEqual({ presets: 1000, matching: 3, usPerVm: 'number' })
    expect(printed.usPerVm).toBeGreaterThan(0)
  },
  60_000,
)
