import { describe, expect, test } from 'vitest'
import type { VirtualMachine } from '../api/machine.ts'
import { isTakenBy } from '../inventory/inventory.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { cachesWithout, type AdmissionCaches } from './caches.ts'
import { createEngine } from './engine.ts'
import { pack } from './machines.ts'
import type { KnownMachine } from './machines.ts'
import { noPermissions } from './permission.ts'
import { parseReview } from './review.ts'
import type { Review } from './review.ts'

type Interface = NonNullable<NonNullable<VirtualMachine['spec']['domain']['devices']>['interfaces']>[number]

const machine = (name: string, ...interfaces: Interface[]): VirtualMachine => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name, namespace: 'shop' },
  spec: {
    domain: { type: 'qemu', memory: { unit: 'GiB', value: 1 }, os: { type: { os: 'hvm' } }, devices: { interfaces } },
  },
})

function reviewOf(object: object): Review {
  const request = {
    uid: 'request-1',
    kind: { kind: 'VirtualMachine' },
    name: 'vm',
    namespace: 'shop',
    operation: 'CREATE',
    object,
  }
  const parsed = parseReview({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request })
  if ('problem' in parsed) throw new Error(parsed.problem)
  return parsed.review
}

const engineWith = (more: Partial<AdmissionCaches> = {}) =>
  createEngine({ ...cachesWithout(fakeClock()), ...more }, () => Promise.resolve(false))

const completed = (given: VirtualMachine, engine = engineWith()) => {
  const outcome = engine.complete(given, reviewOf(given), noPermissions)
  if ('causes' in outcome) throw new Error(JSON.stringify(outcome.causes))
  return { machine: outcome.completed.machine, warnings: outcome.warnings }
}
const macsOf = ({ spec: { domain } }: VirtualMachine) =>
  (domain.devices?.interfaces ?? []).map(({ mac }) => mac?.address)
const persisted = (given: VirtualMachine, name: string) =>
  pack({ ...given, metadata: { ...given.metadata, name, uid: name, resourceVersion: '1' } })

/** As the store finds them. */
const machinesOf = (...known: KnownMachine[]): Pick<AdmissionCaches, 'isMacTaken'> => ({
  isMacTaken: (address, vm) =>
    isTakenBy(
      known.filter(({ macs = [] }) => macs.includes(address)),
      vm,
    ),
})

describe('a MAC address', () => {
  const first = completed(machine('vm', { type: 'user' })).machine
  const taken = engineWith(machinesOf(persisted(first, 'other')))

  test('that another VM has is drawn again, the same for the same request', () => {
    const [again, oncemore] = [
      completed(machine('vm', { type: 'user' }), taken),
      completed(machine('vm', { type: 'user' }), taken),
    ]
    expect(macsOf(again.machine)).not.toEqual(macsOf(first))
    expect(macsOf(again.machine)).toEqual(macsOf(oncemore.machine))
    expect(again.warnings).toEqual([])
  })

  test('that the VM itself has, as others see it already, is not drawn again', () => {
    const engine = engineWith(machinesOf(persisted(first, 'vm')))
    expect(macsOf(completed(machine('vm', { type: 'user' }), engine).machine)).toEqual(macsOf(first))
  })

  test('stays in the second review of its request, whoever has it by then; its user is told', () => {
    const second = completed(first, taken)
    expect(second.machine.spec).toEqual(first.spec)
    expect(second.warnings.filter((line) => line.includes(`MAC address ${macsOf(first)[0]}, too`)).length).toBe(1)
  })

  test('that its user wrote stays, with a warning', () => {
    const address = (macsOf(first)[0] ?? '').toUpperCase()
    const own = completed(machine('vm', { type: 'user', mac: { address } }), taken)
    expect(macsOf(own.machine)).toEqual([address])
    expect(own.warnings).toEqual([
      `devices.interfaces[0]: another VM of the cluster has the MAC address ${address.toLowerCase()}, too`,
    ])
  })
})

test('a VM whose pod its namespace would not let in is completed, with a warning', () => {
  const quotas = [{ metadata: { name: 'small' }, spec: { hard: { 'requests.memory': '1Gi' } } }]
  const { warnings } = completed(machine('vm'), engineWith({ budget: () => ({ ranges: [], quotas }) }))
  expect(warnings.filter((line) => line.startsWith('ResourceQuota'))).toEqual([
    `ResourceQuota "small": 1024Mi of 1Gi requests.memory are left, the VM's pod needs 1509Mi`,
  ])
})
