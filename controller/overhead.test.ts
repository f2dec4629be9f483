import { describe, expect, it } from 'vitest'
import { storedMachine } from '../test/stored-machine.ts'
import { demandOf } from './overhead.ts'

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
