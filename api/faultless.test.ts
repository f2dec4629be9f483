import { expect, test } from 'vitest'
import type { Cause } from './cause.ts'
import { faultless } from './faultless.ts'
import { parseMachine } from './machine.ts'

const machine = (domain: object, more: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'a' },
  spec: { domain, ...more },
})

const check = (value: unknown): readonly Cause[] => {
  const parsed = parseMachine(value)
  return 'causes' in parsed ? parsed.causes : []
}

const rows: [string, object, object | undefined, string[]][] = [
  ['what is well stays as it is', machine({ type: 'kvm' }), machine({ type: 'kvm' }), []],
  [
    'a faulty leaf goes',
    machine({ type: 'kvmm', memory: { value: 1 } }),
    machine({ memory: { value: 1 } }),
    ['spec.domain.type'],
  ],
  [
    'an unknown key goes, and others keep their places',
    machine({ devices: { disks: [{ devise: 'x', target: { dev: 'vda' } }, { target: { dev: 'vdb' } }] } }),
    machine({ devices: { disks: [{ target: { dev: 'vda' } }, { target: { dev: 'vdb' } }] } }),
    ['spec.domain.devices.disks[0].devise'],
  ],
  [
    'an item that is none leaves an empty one',
    machine({ devices: { disks: ['vda', { target: { dev: 'vdb' } }] } }),
    machine({ devices: {} }),
    ['spec.domain.devices.disks[0]'],
  ],
  [
    'what lacks something goes as a whole',
    machine({ type: 'kvm' }, { volumes: [{ name: 'a' }] }),
    machine({ type: 'kvm' }, {}),
    ['spec.volumes[0]', 'spec.volumes'],
  ],
  ['without a spec there is no rest', { metadata: { name: 'a' } }, undefined, []],
]

test.each(rows)('%s', (_, value, rest, without) => {
  const before = structuredClone(value)
  expect(faultless(value, check)).toEqual(rest === undefined ? undefined : { rest, without })
  expect(value).toEqual(before)
})

test('thirty thousand unknown fields are not removed one by one: the causes are answer enough', () => {
  const many = machine(Object.fromEntries(Array.from({ length: 30_000 }, (_, index) => [`field${index}`, 1])))
  expect(faultless(many, check)).toBeUndefined()
})

test('what is removed in one round costs one copy of what it stands in', () => {
  const fields = Array.from({ length: 200 }, (_, index) => [`field${index}`, 1] as const)
  const metadata = { name: 'a', ...Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`key${at}`, at])) }
  const value = { ...machine(Object.fromEntries(fields)), padding: metadata }
  const since = process.cpuUsage()
  expect(faultless(value, check)?.without).toHaveLength(200)
  const { user, system } = process.cpuUsage(since)
  expect(user + system).toBeLessThan(1_000_000)
})

test('a key of the prototype is a key like any other', () => {
  const value: unknown = JSON.parse(
    '{"metadata": {"name": "a"}, "spec": {"domain": {"__proto__": {"x": 1}, "type": "kvm"}}}',
  )
  expect(faultless(value, check)).toEqual({
    rest: { metadata: { name: 'a' }, spec: { domain: { type: 'kvm' } } },
    without: ['spec.domain.__proto__'],
  })
  expect({}).not.toHaveProperty('x')
})
