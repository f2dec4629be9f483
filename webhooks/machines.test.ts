import { describe, expect, test } from 'vitest'
import type { VirtualMachine } from '../api/machine.ts'
import { bundledCapabilities as capabilities } from '../completion/capabilities.ts'
import { complete } from '../completion/complete.ts'
import { createCandidates } from '../presets/candidates.ts'
import type { Persisted } from '../runtime/resource.ts'
import { pack, unpack } from './machines.ts'

const devices: NonNullable<VirtualMachine['spec']['domain']['devices']> = {
  disks: ['vda', 'vdb', 'vdc'].map((dev) => ({ type: 'volume', source: { volume: dev }, target: { dev } })),
  interfaces: [{ type: 'user', mac: { address: '52:54:0:AA:BB:1' } }, { type: 'user' }],
  consoles: [{ type: 'pty' }],
  graphics: [{ type: 'vnc' }],
}
const written = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'shop', labels: { app: 'web' }, uid: 'u', resourceVersion: '1' },
  spec: {
    domain: { type: 'kvm', memory: { unit: 'GiB', value: 2 }, os: { type: { os: 'hvm', machine: 'q35' } }, devices },
    volumes: ['vda', 'vdb', 'vdc'].map((name) => ({ name, emptyDisk: { capacity: '1Gi' } })),
  },
} satisfies VirtualMachine

function completed(): Persisted<VirtualMachine> {
  const namespace = { name: 'shop', labels: {} }
  const outcome = complete(written, { presets: createCandidates(), namespace, capabilities, entropy: { uid: 'r' } })
  if (outcome.outcome === 'refused') throw new Error(JSON.stringify(outcome.causes))
  return { ...outcome.machine, metadata: { ...outcome.machine.metadata, ...written.metadata } }
}

describe('a VM as it is kept', () => {
  test('is what its user wrote, its labels and its MAC addresses in one spelling', () => {
    const stored = completed()
    const kept = pack(stored)
    expect(unpack(kept)).toEqual({ ...written, metadata: { ...written.metadata, annotations: {} } })
    expect(kept.metadata).toEqual(written.metadata)
    expect(kept.macs).toEqual(['52:54:00:aa:bb:01', stored.spec.domain.devices?.interfaces?.[1]?.mac?.address])
  })

  test('takes a small part of what is stored', () => {
    const stored = completed()
    expect(JSON.stringify(stored).length).toBeGreaterThan(5000)
    expect(JSON.stringify(pack(stored)).length).toBeLessThan(2000)
  })

  test('is packed where its user wrote much', () => {
    const description = 'a long text. '.repeat(500)
    const long = { ...written, spec: { ...written.spec, domain: { ...written.spec.domain, description } } }
    const kept = pack(long)
    expect([kept.written, kept.deflated === undefined || kept.deflated.length < 1500]).toEqual([undefined, true])
    expect(unpack(kept)?.spec).toEqual(long.spec)
  })

  test('that would not be let in today is none to look at', () => {
    const odd = { ...written, spec: { ...written.spec, nodeSelector: { 'a b': 'c' } } }
    expect(unpack(pack(odd))).toBe(undefined)
  })
})
