import fc from 'fast-check'
import { expect, test } from 'vitest'
import { deepFreeze } from '../api/deep-freeze.ts'
import { isRecord } from '../api/schema.ts'
import { specShape, type Shape } from '../test/arbitraries/schema.ts'
import { team } from '../test/presets/make.ts'
import { gadget, gadgetCrd, gadgetTarget } from '../test/presets/objects.ts'
import { createCandidates } from './candidates.ts'
import type { CompiledPreset } from './compile.ts'
import { injectInto, type Injected } from './inject.ts'
import type { Subject } from './kind.ts'
import { kindsIn, type ObjectKind } from './object-kind.ts'
import { compileObjectPreset } from './object-preset.ts'

/** An object of a generated kind, with presets for it. */
interface World {
  readonly kind: ObjectKind
  readonly object: Subject
  readonly presets: readonly CompiledPreset[]
}

const crdOf = ({ schema }: Shape) => ({
  ...gadgetCrd,
  spec: {
    ...gadgetCrd.spec,
    versions: [{ name: 'v1', schema: { openAPIV3Schema: { type: 'object', properties: { spec: schema } } } }],
  },
})

interface Settings {
  readonly isCluster: boolean
  readonly priority: number
  readonly strength: string
}

const settings: fc.Arbitrary<Settings> = fc.record({
  isCluster: fc.boolean(),
  priority: fc.constantFrom(0, 1),
  strength: fc.constantFrom('Default', 'Enforce'),
})

const worlds: fc.Arbitrary<World> = specShape.chain((shape) =>
  fc
    .record({
      spec: shape.values,
      given: fc.array(fc.tuple(shape.values, settings), { minLength: 1, maxLength: 4 }),
    })
    .map(({ spec, given }) => worldOf(shape, spec, given)),
)

function worldOf(shape: Shape, spec: unknown, given: readonly (readonly [unknown, Settings])[]): World {
  const kinds = kindsIn(crdOf(shape)) ?? new Map()
  const read = kinds.get('Gadget of example.com/v1')?.()
  if (read === undefined || !('kind' in read)) throw new Error(JSON.stringify(read))
  const presets = given.map(([content, how], index) => {
    const { isCluster, ...rest } = how
    const made = compileObjectPreset(
      {
        apiVersion: 'virtset.io/v1alpha1',
        kind: isCluster ? 'ClusterObjectPreset' : 'ObjectPreset',
        metadata: { name: `p${index}`, ...(isCluster ? {} : { namespace: 'team' }) },
        spec: { target: gadgetTarget, selector: {}, ...rest, object: { spec: content } },
      },
      kinds,
    )
    if ('quarantined' in made) throw new Error(JSON.stringify(made.quarantined.causes))
    return made.preset
  })
  return { kind: read.kind, object: deepFreeze(gadget(spec as { readonly [key: string]: unknown })), presets }
}

const run = ({ kind, object, presets }: World): Injected =>
  injectInto(object, kind, { presets: createCandidates(presets), namespace: team })

const plain = ({ object, causes, origins }: Injected) => JSON.stringify({ object, causes, origins: [...origins] })

/** Every leaf of `part` is in `whole` at the same place. */
function isPart(part: unknown, whole: unknown): boolean {
  if (Array.isArray(part) && Array.isArray(whole)) return part.every((item, index) => isPart(item, whole[index]))
  if (!isRecord(part) || !isRecord(whole)) return Object.is(part, whole)
  return Object.keys(part).every((key) => Object.hasOwn(whole, key) && isPart(part[key], whole[key]))
}

test('of any kind: the order of presets does not matter, injecting is idempotent, defaults change no value', () => {
  fc.assert(
    fc.property(worlds, (world) => {
      const injected = run(world)
      expect(plain(run({ ...world, presets: world.presets.toReversed() }))).toBe(plain(injected))
      const again = injected.causes.length === 0 ? run({ ...world, object: injected.object }) : injected
      expect(again.object).toEqual(injected.object)
      const defaults = world.presets.filter(({ strength }) => strength === 'Default')
      expect(isPart(world.object, run({ ...world, presets: defaults }).object)).toBe(true)
    }),
    { numRuns: 100 },
  )
})
