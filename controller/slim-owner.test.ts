import { describe, expect, it } from 'vitest'
import type { VirtualMachineConfig } from '../api/config.ts'
import type { VirtualMachineGroup } from '../api/group.ts'
import { apiVersion } from '../api/object.ts'
import { revisionOf } from '../presets/compile.ts'
import type { Persisted } from '../runtime/resource.ts'
import { configSlimmer, groupSlimmer, isPaused } from './slim-owner.ts'

const text = 'x'.repeat(200_000)
const identity = { name: 'web', namespace: 'default', uid: 'u', resourceVersion: '7' }
const metadata = { ...identity, generation: 2, labels: { text }, annotations: { text }, finalizers: [text] }
const template = { spec: { domain: { description: text } } }
const config: Persisted<VirtualMachineConfig> = {
  apiVersion,
  kind: 'VirtualMachineConfig',
  metadata,
  spec: { template },
  status: { phase: 'Stopped' },
}
const selector = { matchLabels: { app: 'web' } }
const group: Persisted<VirtualMachineGroup> = {
  apiVersion,
  kind: 'VirtualMachineGroup',
  metadata,
  spec: { replicas: 3, minAvailable: 1, selector, template },
}
const cachedMetadata = { ...identity, generation: 2 }

describe('a cached config', () => {
  it('has the hash of its template, and not the template', () => {
    const slim = configSlimmer().slim(config)
    expect(slim).toStrictEqual({
      apiVersion,
      kind: 'VirtualMachineConfig',
      metadata: cachedMetadata,
      status: { phase: 'Stopped' },
      revision: revisionOf(template),
    })
    expect(configSlimmer().slim(slim)).toBe(slim)
  })

  it('has only a mark for its claims', () => {
    const claim = { name: 'a', spec: { accessModes: [text], resources: { requests: { storage: '1Gi' } } } }
    expect(configSlimmer().slim({ ...config, spec: { template, claimTemplates: [claim] } })).toStrictEqual({
      ...configSlimmer().slim(config),
      hasClaims: true,
    })
  })

  it('has another hash when its generation changes, and only then', () => {
    const { slim } = configSlimmer()
    const other = { template: { spec: { domain: {} } } }
    const revisions = [
      config,
      { ...config, spec: other },
      { ...config, spec: other, metadata: { ...metadata, generation: 3 } },
    ]
    const [first, same, changed] = revisions.map((one) => slim(one).revision)
    expect([same === first, changed]).toEqual([true, revisionOf(other.template)])
  })
})

describe('a cached group', () => {
  it('has the numbers and the selector, and not the template', () => {
    const slim = groupSlimmer().slim(group)
    expect(slim).toStrictEqual({
      apiVersion,
      kind: 'VirtualMachineGroup',
      metadata: cachedMetadata,
      spec: { replicas: 3, minAvailable: 1, selector },
      revision: revisionOf(template),
    })
    expect(groupSlimmer().slim(slim)).toBe(slim)
  })

  it('has only marks for its claims', () => {
    const claimTemplates = [{ name: 'a', spec: { accessModes: [text], resources: { requests: { storage: '1Gi' } } } }]
    const persistentVolumeClaimRetentionPolicy = { whenScaled: 'Delete' } as const
    const spec = { ...group.spec, claimTemplates, persistentVolumeClaimRetentionPolicy }
    expect(groupSlimmer().slim({ ...group, spec })).toStrictEqual({
      ...groupSlimmer().slim(group),
      hasClaims: true,
      deletesClaims: true,
    })
  })

  it('has the same selector object until its spec changes, since each is compiled once', () => {
    const { slim } = groupSlimmer()
    const first = slim(group)
    const again = slim(structuredClone(group))
    expect(again.spec.selector).toBe(first.spec.selector)
    expect(slim({ ...structuredClone(group), metadata: { ...metadata, generation: 3 } }).spec.selector).not.toBe(
      selector,
    )
  })

  it('is paused if its selector is larger than admission accepts', () => {
    const large = { matchLabels: { app: 'x'.repeat(8192) } }
    const slim = groupSlimmer().slim({ ...group, spec: { ...group.spec, selector: large } })
    expect([slim.spec.selector, isPaused(slim)]).toEqual([{}, true])
    expect(isPaused(groupSlimmer().slim(group))).toBe(false)
  })
})
