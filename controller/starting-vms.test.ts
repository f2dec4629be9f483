import { expect, it } from 'vitest'
import { storedVm } from '../test/stored-vm.ts'
import { createStartingVms } from './starting-vms.ts'

const vm = (uid: string, resourceVersion = '1', title = '') =>
  storedVm({ metadata: { uid, resourceVersion }, spec: { domain: { title } } })

it('returns the whole of the same version of a VM', () => {
  const vms = createStartingVms()
  vms.put(vm('a', '1', 'first'))
  expect(vms.get(vm('a'))).toEqual(vm('a', '1', 'first'))
  expect([vms.get(vm('a', '2')), vms.get(vm('b'))]).toEqual([undefined, undefined])
})

it('stores no more characters than it may, whatever the number of VMs', () => {
  const size = JSON.stringify(vm('uid-000')).length
  const vms = createStartingVms(size * 300)
  const all = Array.from({ length: 1000 }, (_, index) => vm(`uid-${String(index).padStart(3, '0')}`))
  for (const one of all) vms.put(one)
  expect(all.filter((one) => vms.get(one) !== undefined)).toEqual(all.slice(-300))
})

it('does not store a VM that would replace hundreds', () => {
  const size = JSON.stringify(vm('a')).length
  const vms = createStartingVms(size * 300)
  vms.put(vm('a'))
  vms.put(vm('b', '1', 'x'.repeat(size)))
  expect([vms.get(vm('a')) !== undefined, vms.get(vm('b'))]).toEqual([true, undefined])
})
