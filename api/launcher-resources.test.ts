import { describe, expect, it } from 'vitest'
import { storedMachine } from '../test/stored-machine.ts'
import { demandOf, launcherResources } from './launcher-resources.ts'

const { domain } = storedMachine().spec
const mebibytes = (bytes: bigint) => Number(bytes) / 2 ** 20

describe('what a VM wants of its node', () => {
  it.each([
    ['64 MiB, one CPU', {}, 64 + 90 + 80 + 8 + 64 / 512, 100n],
    ['8 GiB', { memory: { unit: 'GiB', value: '8' } }, 8192 + 90 + 80 + 8 + 16, 100n],
    ['four CPUs', { vcpu: { value: 4 } }, 64 + 90 + 80 + 32 + 64 / 512, 400n],
  ])('%s', (_name, over, memory, cpuMillis) => {
    const demand = demandOf({ ...domain, ...over })
    expect({ memory: mebibytes(demand.memoryBytes), cpuMillis: demand.cpuMillis }).toEqual({ memory, cpuMillis })
  })
})

describe('what its launcher pod asks for', () => {
  it.each([
    ['emulated', { type: 'qemu' }, { requests: { cpu: '100m', memory: '253886464' } }],
    [
      'with KVM',
      { type: 'kvm' },
      {
        requests: { cpu: '100m', memory: '253886464', 'devices.virtset.io/kvm': '1' },
        limits: { 'devices.virtset.io/kvm': '1' },
      },
    ],
  ] as const)('%s', (_name, over, resources) => {
    expect(launcherResources({ ...domain, ...over })).toEqual(resources)
  })
})
