import { expect, test } from 'vitest'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { launcherPodFinalizer } from '../api/virtual-machine.ts'
import { withFinalizer } from './reserved.ts'

test.each([
  ['without finalizers gets the finalizer', undefined, [launcherPodFinalizer]],
  ['with other finalizers gets it too', ['a'], ['a', launcherPodFinalizer]],
  ['with the finalizer is unchanged', [launcherPodFinalizer, 'a'], [launcherPodFinalizer, 'a']],
])('a VM %s', (_, finalizers, expected) => {
  const vm: VirtualMachine = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm', ...(finalizers === undefined ? {} : { finalizers }) },
    spec: { domain: {} },
  }
  expect(withFinalizer(vm)).toEqual({ ...vm, metadata: { name: 'vm', finalizers: expected } })
})
