import { describe, expect, test } from 'vitest'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { isOther } from '../../inventory/inventory.ts'
import { fakeClock, settle } from '../../test/fake-clock.ts'
import { cachesWithout, type AdmissionCaches } from './caches.ts'
import { createEngine } from './engine.ts'
import { pack } from './watched-vms.ts'
import type { CachedVm } from './watched-vms.ts'
import { noPermissions } from './permission.ts'
import { parseAdmissionReview } from './request.ts'
import type { AdmissionRequest } from './request.ts'

type Interface = NonNullable<NonNullable<VirtualMachine['spec']['domain']['devices']>['interfaces']>[number]

const vm = (name: string, ...interfaces: Interface[]): VirtualMachine => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name, namespace: 'shop' },
  spec: {
    domain: { type: 'qemu', memory: { unit: 'GiB', value: 1 }, os: { type: { os: 'hvm' } }, devices: { interfaces } },
  },
})

function requestFor(object: object): AdmissionRequest {
  const request = {
    uid: 'request-1',
    kind: { kind: 'VirtualMachine' },
    name: 'vm',
    namespace: 'shop',
    operation: 'CREATE',
    object,
  }
  const parsed = parseAdmissionReview({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request })
  if ('problem' in parsed) throw new Error(parsed.problem)
  return parsed.request
}

const engineWith = (more: Partial<AdmissionCaches> = {}) =>
  createEngine({ ...cachesWithout(fakeClock()), ...more }, () => Promise.resolve(false))

const completed = (given: VirtualMachine, engine = engineWith()) => {
  const outcome = engine.complete(given, requestFor(given), noPermissions)
  if ('causes' in outcome) throw new Error(JSON.stringify(outcome.causes))
  return { vm: outcome.completed.vm, warnings: outcome.warnings }
}
const macsOf = ({ spec: { domain } }: VirtualMachine) =>
  (domain.devices?.interfaces ?? []).map(({ mac }) => mac?.address)
const persisted = (given: VirtualMachine, name: string) =>
  pack({ ...given, metadata: { ...given.metadata, name, uid: name, resourceVersion: '1' } })

/** As the store looks them up. */
const cachesWith = (...known: CachedVm[]): Pick<AdmissionCaches, 'isMacTaken'> => ({
  isMacTaken: (address, vm) => known.some((holder) => holder.macs?.includes(address) === true && isOther(holder, vm)),
})

describe('a MAC address', () => {
  const first = completed(vm('vm', { type: 'user' })).vm
  const taken = engineWith(cachesWith(persisted(first, 'other')))

  test('of another VM is generated again, the same for the same request', () => {
    const [again, oncemore] = [
      completed(vm('vm', { type: 'user' }), taken),
      completed(vm('vm', { type: 'user' }), taken),
    ]
    expect(macsOf(again.vm)).not.toEqual(macsOf(first))
    expect(macsOf(again.vm)).toEqual(macsOf(oncemore.vm))
    expect(again.warnings).toEqual([])
  })

  test('of the VM itself, in the cache already, is not generated again', () => {
    const engine = engineWith(cachesWith(persisted(first, 'vm')))
    expect(macsOf(completed(vm('vm', { type: 'user' }), engine).vm)).toEqual(macsOf(first))
  })

  test('stays in the validating request, with a warning if another VM has it by then', () => {
    const second = completed(first, taken)
    expect(second.vm.spec).toEqual(first.spec)
    expect(
      second.warnings.filter((line) => line.includes(`already has the MAC address ${macsOf(first)[0]}`)).length,
    ).toBe(1)
  })

  test('that the user wrote stays, with a warning', () => {
    const address = (macsOf(first)[0] ?? '').toUpperCase()
    const own = completed(vm('vm', { type: 'user', mac: { address } }), taken)
    expect(macsOf(own.vm)).toEqual([address])
    expect(own.warnings).toEqual([
      `devices.interfaces[0]: another VM of the cluster already has the MAC address ${address.toLowerCase()}`,
    ])
  })
})

test('a VM whose pod its namespace would reject is completed, with a warning', () => {
  const quotas = [{ metadata: { name: 'small' }, spec: { hard: { 'requests.memory': '1Gi' } } }]
  const { warnings } = completed(vm('vm'), engineWith({ quota: () => ({ ranges: [], quotas }) }))
  expect(warnings.filter((line) => line.startsWith('ResourceQuota'))).toEqual([
    `ResourceQuota "small": the VM's pod needs 1509Mi requests.memory; 1024Mi of 1Gi are left`,
  ])
})

test('the first VM of a namespace waits until the labels of the namespace are known', async () => {
  const known = Promise.withResolvers<void>()
  const engine = engineWith({ newNamespaces: { wait: (name) => (name === 'shop' ? known.promise : undefined) } })
  let isReady = false
  void engine.ready('shop')?.then(() => (isReady = true))
  await settle()
  expect([isReady, engine.ready('team')]).toEqual([false, undefined])
  known.resolve()
  await settle()
  expect(isReady).toBe(true)
})
