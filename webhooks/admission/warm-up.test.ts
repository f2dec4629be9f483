import { beforeAll, describe, expect, test } from 'vitest'
import { sampleHandler, sampleVm, warmUp } from './warm-up.ts'

test('handles a hundred samples immediately and four hundred between other work', async () => {
  const handled: number[] = []
  warmUp((number) => void handled.push(number))
  expect(handled.length).toBe(100)
  for (let turn = 1; turn <= 500; turn++) {
    await new Promise(setImmediate)
    expect(handled.length).toBeLessThanOrEqual(100 + turn + 1)
  }
  expect(handled).toEqual(Array.from({ length: 500 }, (_, index) => index))
})

describe('a sample', () => {
  const handle = sampleHandler()
  beforeAll(() => handle(0))

  test.each([0, 1, 2, 3, 4, 5])('is admitted: %i', (number) => {
    expect(() => handle(number)).not.toThrow()
  })
})

test.each([
  [2, { os: 'hvm' }, {}],
  [3, { os: 'hvm', machine: 'q35' }, { interfaces: [{ type: 'user' }], serials: [{ type: 'pty' }] }],
])('sample %i', (number, type, more) => {
  const source = { protocol: 'nbd', name: `${number}`, host: { name: 'disks' } }
  const disks = [{ type: 'network', device: 'disk', source, target: { dev: 'vda' } }]
  expect(sampleVm(number)).toEqual({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'warm-up', namespace: 'default' },
    spec: { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type }, devices: { disks, ...more } } },
  })
})
