import { isDeepStrictEqual } from 'node:util'
import fastJsonPatch from 'fast-json-patch'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Preset } from '../../api/preset.ts'
import { isRecord } from '../../api/schema.ts'
import { completedByAnnotation, parseVirtualMachine, type VirtualMachine } from '../../api/virtual-machine.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete } from '../../completion/complete.ts'
import { decodeProvenance } from '../../completion/provenance.ts'
import { withFinalizer } from '../../completion/reserved.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { compilePreset } from '../../presets/compile.ts'
import { mutate } from '../../webhooks/admission/handler.ts'
import { admissionRequest, titleEngine, trust } from '../admission.ts'
import { operationsOf } from '../operations.ts'
import { namespace, worlds } from '../reach/worlds.ts'

const numRuns = fc.readConfigureGlobal().numRuns ?? 600

type Json = { readonly [key: string]: unknown }

const apiVersion = 'virtset.io/v1alpha1'
const pick = <T>(...values: T[]) => fc.constantFrom(...values)
const some = (model: { readonly [key: string]: fc.Arbitrary<unknown> }) => fc.record(model, { requiredKeys: [] })

const volume = (name: string) => ({ name, persistentVolumeClaim: { claimName: name } })
const disk = fc.tuple(pick('vda', 'vdb', 'vdc'), pick('a', 'b', 'c'), fc.boolean()).map(([dev, name, isReadonly]) => ({
  device: 'disk',
  type: 'volume',
  source: { volume: name },
  target: { dev },
  ...(isReadonly ? { readonly: {} } : {}),
}))
const cdrom = fc.tuple(pick('sda', 'sdb'), pick('a', 'b', 'c')).map(([dev, name]) => ({
  device: 'cdrom',
  type: 'volume',
  source: { volume: name },
  target: { dev, bus: 'sata' },
}))
const disks = fc.uniqueArray(fc.oneof(disk, cdrom), { maxLength: 4, selector: ({ target }) => target.dev })
const memory = fc.oneof(
  fc.record({ unit: pick('MiB', 'KiB'), value: pick<unknown>(65_536, 131_072, '65536') }),
  pick<Json>(
    { value: 131_072 },
    { value: 65_536, dumpCore: 'on' },
    { unit: 'MiB', value: 64 },
    { unit: 'GiB', value: 1 },
  ),
)
const clock = pick<Json>(
  { offset: 'utc' },
  { offset: 'timezone', timezone: 'Europe/Paris' },
  { offset: 'variable', adjustment: '3600', basis: 'utc' },
)
/** Their items have lists. */
const interfaces = fc.uniqueArray(pick(2000, 3000, 4000), { minLength: 2 }).map((ports) =>
  ports.map((port) => ({
    type: 'user',
    model: { type: 'virtio' },
    backend: { type: 'passt' },
    portForwards: [
      {
        proto: 'tcp',
        ranges: [
          { start: port, to: 22 },
          { start: port + 1, to: 80 },
        ],
      },
    ],
  })),
)
const backing = pick<Json>({ model: 'random', text: '/dev/urandom' }, { model: 'builtin' })
const rng = fc.record({ model: pick('virtio'), backend: backing, rate: pick({ bytes: 99 }, { bytes: 99, period: 5 }) })
const domain = some({
  title: pick('one', 'two', 'x'.repeat(200)),
  memory,
  clock,
  cpu: pick<Json>({ mode: 'maximum' }, { mode: 'custom', match: 'exact', model: { value: 'Nehalem' } }),
  features: pick<Json>({ acpi: {} }, { acpi: {}, apic: {} }, { pae: {} }),
  devices: some({
    disks,
    serials: fc.array(pick({ type: 'pty' }, { type: 'null' }), { minLength: 1, maxLength: 3 }),
    rngs: fc.array(rng, { minLength: 1, maxLength: 2 }),
    channels: fc.array(
      pick('a', 'b').map((name) => ({ type: 'pty', target: { type: 'virtio', name } })),
      { minLength: 1, maxLength: 2 },
    ),
    interfaces,
    watchdogs: fc.constant([{ model: 'i6300esb', action: 'reset' }]),
  }),
})
const path = pick(
  'devices.disks[0]',
  'devices.disks[1]',
  'devices.disks[target.dev=vdb]',
  'devices.disks[0].source',
  'devices.disks[0].readonly',
  'devices.disks[1].target.dev',
  'devices.disks',
  'devices.serials[0]',
  'devices.serials[1]',
  'devices.serials[type=pty]',
  'devices.rngs[0]',
  'devices.rngs[0].rate',
  'devices.rngs[1].rate.period',
  'devices.rngs',
  'devices.channels[0]',
  'devices.channels[target.name=b]',
  'devices.interfaces[0]',
  'devices.interfaces[1]',
  'features.acpi',
  'features',
  'clock',
  'memory',
  'title',
)
/** An item of a list that another one contains. */
const pathInList = pick(
  'devices.interfaces[0].portForwards[0]',
  'devices.interfaces[0].portForwards[0].ranges[0]',
  'devices.interfaces[1].portForwards[0].ranges[1]',
)
const paths = fc
  .tuple(fc.array(path, { maxLength: 3 }), fc.array(pathInList, { maxLength: 2 }))
  .map((both) => both.flat().map((below) => `domain.${below}`))
const volumes = ['a', 'b', 'c', 'd'].map(volume)
const preset = fc
  .record({
    domain: fc.oneof(fc.constant({}), domain),
    volumes: fc.oneof(fc.constant([]), fc.subarray(volumes)),
    strength: pick('Enforce', 'Enforce', 'Default'),
    remove: paths,
    priority: fc.nat({ max: 2 }),
  })
  .map(({ strength, remove, ...rest }) => ({
    selector: {},
    strength,
    ...rest,
    ...(strength === 'Enforce' ? { remove } : {}),
  }))
const presets = fc.array(preset, { minLength: 1, maxLength: 2 }).map((specs) =>
  specs.map(
    (spec, index) =>
      ({
        apiVersion,
        kind: 'ClusterVirtualMachinePreset',
        metadata: { name: `p${index}` },
        spec,
      }) as unknown as Preset,
  ),
)
const sendings = fc
  .tuple(domain, fc.shuffledSubarray(volumes, { minLength: 3 }), presets)
  .map(([domain, volumes, given]) => ({
    presets: given,
    vm: {
      apiVersion,
      kind: 'VirtualMachine',
      metadata: { name: 'vm', namespace: 'team' },
      spec: {
        domain: { type: 'qemu', os: { type: { os: 'hvm' } }, memory: { unit: 'MiB', value: 64 }, ...domain },
        volumes,
      },
    } as unknown as VirtualMachine,
  }))

function stored({ vm, presets }: { readonly vm: VirtualMachine; readonly presets: readonly Preset[] }) {
  const parsed = parseVirtualMachine(vm)
  if ('causes' in parsed) return undefined
  const byName = new Map(presets.map((one) => [`${one.kind}/${one.metadata.name}`, one]))
  const compiled = [...byName.values()].flatMap((one) => {
    const outcome = compilePreset(one)
    return 'preset' in outcome ? [outcome.preset] : []
  })
  const options = { presets: createCandidates(compiled), namespace, capabilities, entropy: { uid: 'request' } }
  const outcome = complete(parsed.vm, options)
  if (outcome.outcome === 'refused') return undefined
  // Because of other webhooks, it can be completed again before it is stored. An index in `remove` then names another
  // item.
  const again = complete(outcome.vm, options)
  const isSame = again.outcome === 'completed' && isDeepStrictEqual(originsOf(again.vm), originsOf(outcome.vm))
  return [outcome, ...(isSame ? [again] : [])].map((one) => ({
    vm: withFinalizer(one.vm),
    isShorter: outcome.removed.size > 0,
  }))
}

const originsOf = ({ metadata, spec }: VirtualMachine) => [
  spec,
  decodeProvenance(metadata.annotations?.[completedByAnnotation] ?? '')?.origins,
]

/** As a JSON merge patch that deletes nothing. */
const merged = (stored: unknown, patch: unknown): unknown =>
  isRecord(stored) && isRecord(patch)
    ? {
        ...stored,
        ...Object.fromEntries(Object.keys(patch).map((key) => [key, merged(stored[key], patch[key])])),
      }
    : patch

/** As a server-side apply: volumes are merged by name. */
function applied(stored: VirtualMachine, vm: VirtualMachine): unknown {
  const own = vm.spec.volumes ?? []
  const names = new Set(own.map(({ name }) => name))
  const others = (stored.spec.volumes ?? []).filter(({ name }) => !names.has(name))
  const volumes = [...own, ...others]
  const result = merged(stored, vm) as VirtualMachine
  return volumes.length === 0 ? result : { ...result, spec: { ...result.spec, volumes } }
}

/** The spec that is stored after the update, or the causes. */
function updated(sent: unknown, old: VirtualMachine): unknown {
  const result = mutate(admissionRequest('VirtualMachine', sent, old), titleEngine, trust)
  if (!result.allowed) return result.causes
  return fastJsonPatch.applyPatch(JSON.parse(JSON.stringify(sent)), [...operationsOf(result)]).newDocument.spec
}

test('a manifest that was admitted can be sent again, and changes nothing', () => {
  const tally = { sent: 0, stored: 0, removed: 0 }
  fc.assert(
    fc.property(fc.oneof({ arbitrary: sendings, weight: 3 }, worlds), (given) => {
      tally.sent += 1
      for (const { vm, isShorter } of stored(given) ?? []) {
        tally.stored += 1
        if (isShorter) tally.removed += 1
        for (const sent of [given.vm, merged(vm, given.vm), applied(vm, given.vm), vm]) {
          expect(updated(sent, vm)).toEqual(vm.spec)
        }
      }
    }),
    { numRuns },
  )

  // Otherwise the property would be empty.
  expect(tally.stored).toBeGreaterThan(tally.sent / 10)
  expect(tally.removed).toBeGreaterThan(tally.stored / 20)
})
