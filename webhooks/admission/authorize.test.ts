import { describe, expect, test } from 'vitest'
import { excludePresetsAnnotation } from '../../api/virtual-machine.ts'
import { admissionRequest } from '../../test/admission.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { candidatesOf, preset } from '../../test/preset.ts'
import { isSpecUnchanged, requiredPermissions } from './authorize.ts'
import { cachesWithout } from './caches.ts'
import type { Access } from './permission.ts'
import type { AdmissionRequest } from './request.ts'

const granting = preset('grant', { domain: { devices: { emulator: '/bin/qemu' } } })
const harmless = preset('title', { selector: { matchLabels: { app: 'a' } }, domain: { title: 'x' } })
const enforced = preset('enforced', { strength: 'Enforce', domain: { title: 'x' } }, 'default')
const leaving = { ...harmless, metadata: { name: 'title', deletionTimestamp: '2026-11-21T09:00:00Z' } }
const clusterPreset = (object: unknown, oldObject?: unknown) =>
  admissionRequest('ClusterVirtualMachinePreset', object, oldObject, { name: 'grant', namespace: '' })

const excluding = { [excludePresetsAnnotation]: '*' }
const vm = (metadata: object, kind = 'VirtualMachine') => admissionRequest(kind, { metadata, spec: {} })

const authorize = async (
  request: AdmissionRequest,
  may: (access: Access) => boolean = () => false,
  presets = [harmless, enforced],
) => {
  const reviewed: Access[] = []
  const caches = { ...cachesWithout(fakeClock()), candidates: candidatesOf(...presets) }
  const permissions = await requiredPermissions(
    caches,
    async (access) => {
      reviewed.push(access)
      return may(access)
    },
    request,
  )
  return { reviewed, permissions }
}

const grant = { verb: 'grant-host', resource: 'clustervirtualmachinepresets', name: 'grant' }
const exemptCluster = { verb: 'exempt', resource: 'clustervirtualmachinepresets', name: 'title' }
const exemptOwn = { verb: 'exempt', resource: 'virtualmachinepresets', namespace: 'default', name: 'enforced' }

describe('the access that is reviewed', () => {
  test.each<[string, AdmissionRequest, readonly Access[]]>([
    ['a cluster preset that grants', clusterPreset(granting), [grant]],
    ['a cluster preset that does not', clusterPreset(harmless), []],
    ['a malformed cluster preset', clusterPreset({ metadata: {}, spec: 7 }), []],
    ['one that granted the same before', clusterPreset(granting, granting), []],
    ['one that granted nothing before', clusterPreset(granting, harmless), [grant]],
    ['one that granted nothing before and is being deleted', clusterPreset(granting, leaving), [grant]],
    ['a preset without metadata', clusterPreset({ spec: granting.spec }), []],
    ['an object of the wrong type', clusterPreset([]), []],
    ['null', clusterPreset(null), []],
    ['a VM without metadata', admissionRequest('VirtualMachine', { spec: {} }), []],
    ['a namespaced preset', admissionRequest('VirtualMachinePreset', granting), []],
    ['a VM', vm({ labels: { app: 'a' } }), []],
    ['a VM whose annotations are malformed', vm({ annotations: { [excludePresetsAnnotation]: 7 } }), []],
    ['a VM that excludes presets', vm({ annotations: excluding, labels: { app: 'a' } }), [exemptOwn, exemptCluster]],
    ['a VM that excludes presets, one of which does not match', vm({ annotations: excluding }), [exemptOwn]],
    [
      'a VM with malformed labels that excludes presets',
      vm({ annotations: excluding, labels: { app: 'a', b: 7 } }),
      [exemptOwn, exemptCluster],
    ],
    [
      'a VM with labels that are refused as too large, which excludes presets',
      vm({ annotations: excluding, labels: { app: 'a', b: 'x'.repeat(16 * 1024) } }),
      [],
    ],
    [
      'a VM with an annotation that is refused as too long',
      vm({ annotations: { [excludePresetsAnnotation]: `*,${'x'.repeat(256 * 1024)}` } }),
      [],
    ],
    [
      'a stored VM that excludes presets',
      admissionRequest('VirtualMachine', { metadata: { annotations: excluding } }, { metadata: {} }),
      [],
    ],
    ['a config', vm({ annotations: excluding }, 'VirtualMachineConfig'), []],
    [
      'a config whose template excludes presets',
      admissionRequest('VirtualMachineConfig', {
        metadata: {},
        spec: { template: { metadata: { annotations: excluding } } },
      }),
      [],
    ],
  ])('for %s', async (_, request, expected) => {
    const { reviewed } = await authorize(request)
    const byName = (left: Access, right: Access) => (left.name < right.name ? -1 : 1)
    expect(reviewed.toSorted(byName)).toEqual(expected.toSorted(byName))
  })
})

test('however many presets a VM excludes, the access to 64 of them is reviewed', async () => {
  const many = Array.from({ length: 200 }, (_, index) => preset(`p${index}`, { strength: 'Enforce' }, 'default'))
  const named = many.map(({ metadata: { name } }) => name).join()
  for (const annotation of ['*', named]) {
    const request = vm({ annotations: { [excludePresetsAnnotation]: annotation } })
    const { reviewed } = await authorize(request, () => true, many)
    expect(reviewed).toHaveLength(64)
  }
})

describe('permissions', () => {
  test.each([true, false])('to grant are those of the review: %j', async (isAllowed) => {
    const { permissions } = await authorize(clusterPreset(granting), () => isAllowed)
    expect(permissions).toEqual({ exempt: new Set(), mayGrantHost: isAllowed })
  })

  test('to keep a grant are given without review', async () => {
    const { permissions, reviewed } = await authorize(clusterPreset(granting, granting))
    expect([permissions, reviewed]).toEqual([{ exempt: new Set(), mayGrantHost: true }, []])
  })

  test('to be exempt hold for the reviewed presets alone', async () => {
    const request = vm({ annotations: excluding, labels: { app: 'a' } })
    const { permissions } = await authorize(request, ({ name }) => name === 'title')
    expect(permissions).toEqual({ exempt: new Set(['title']), mayGrantHost: false })
  })

  test('are not required for an ordinary VM', async () => {
    expect((await authorize(vm({}))).permissions).toBeUndefined()
  })
})

test.each<[string, unknown, unknown, boolean]>([
  ['metadata', { metadata: { a: 1 }, spec: { b: [1] } }, { spec: { b: [1] } }, true],
  ['the spec', { spec: { b: [1] } }, { spec: { b: [2] } }, false],
  ['everything, on creation', { spec: {} }, undefined, false],
  ['the type', 7, {}, false],
  ['everything to null', null, { spec: {} }, false],
])('a change of %s', (_, object, oldObject, expected) => {
  expect(isSpecUnchanged(clusterPreset(object, oldObject))).toBe(expected)
})
