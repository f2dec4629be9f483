import { expect, test } from 'vitest'
import { pinToDedicatedCpus, readAllowedCpus } from './dedicated-cpus.ts'

const domain = { type: 'kvm', vcpu: { value: 3 }, cputune: { shares: 100 } } as const

test('each virtual CPU has one of the CPUs of the pod', () => {
  expect(pinToDedicatedCpus(domain, '2,6-7')).toEqual({
    ...domain,
    cputune: {
      shares: 100,
      vcpupins: [
        { vcpu: 0, cpuset: '2' },
        { vcpu: 1, cpuset: '6' },
        { vcpu: 2, cpuset: '7' },
      ],
      emulatorpin: { cpuset: '2,6-7' },
    },
  })
})

test.each(['0-7', '1', ''])('a pod that can use the CPUs "%s" does not start a VM with three', (allowed) => {
  expect(() => pinToDedicatedCpus(domain, allowed)).toThrow(
    `spec.dedicatedCPUs: the pod requested 3 CPUs and can use ${allowed === '' ? 0 : allowed === '1' ? 1 : 8} (${allowed})`,
  )
})

test('reads the CPUs of this process', async () => {
  expect(await readAllowedCpus()).toMatch(/^\d+([-,]\d+)*$/)
})
