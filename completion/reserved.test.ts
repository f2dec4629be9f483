import { expect, test } from 'vitest'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { launcherPodFinalizer } from '../api/virtual-machine.ts'
import { withFinalizer } from './reserved.ts'

test.each([
  ['is held', undefined, [launcherPodFinalizer]],
  ['that others hold is held, too', ['a'], ['a', launcherPodFinalizer]],
  ['that is held stays as it is', [launcherPodFinalizer, 'a'], [launcherPodFinalizer, 'a']],
])('a VM %s', (_, finalizers, expected) => {
  const vm: VirtualMachine = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm', ...(finalizers === undefined ? {} : { finalizers }) },
    spec: { domain: {} },
  }
  expect(withFinalizer(vm)).toEqual({ ...vm, metadata: { name: 'vm', finalizers: expected } })
})
