import { describe, expect, test } from 'vitest'
import type { Cause, Origin } from '../../api/cause.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { enforcedCauses, restoreEnforced } from './enforced-metadata.ts'
import type { RecordedOrigins } from './update.ts'

const site: Origin = { by: 'preset', name: 'site', revision: '1f0c' }
const tier = 'metadata.labels.tier'
const builtIn = 'metadata.labels.constructor'
const contact = 'metadata.annotations.contact'
const stored: VirtualMachine = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'web', labels: { tier: 'gold', constructor: 'x' }, annotations: { contact: 'ops' } },
  spec: { domain: { type: 'qemu' } },
}
/** The user wrote the tier `silver`, which the preset overrode. */
const origins: RecordedOrigins = {
  isOverridden: (path, value) => path === tier && value === 'silver',
  isUsers: () => false,
  isRemoved: () => false,
  hasLost: () => false,
  shortened: new Map(),
  enforced: new Map([
    [tier, site],
    [builtIn, site],
    [contact, site],
    // None of these is in the stored VM.
    ['metadata.labels.gone', site],
    ['metadata.labels.toString', site],
    ['metadata.name', site],
  ]),
}
const { labels, annotations } = stored.metadata
const remains = (path: string): string => `${path} remains: preset "site" enforces it`
const changed = (field: string, was: string, value: string): Cause => ({
  rule: 'enforced-metadata',
  field,
  value,
  reason: 'FieldValueInvalid',
  message: `must remain ${JSON.stringify(was)}: preset "site" enforces it`,
})
const omitted = (field: string, was: string): Cause => ({
  rule: 'enforced-metadata',
  field,
  reason: 'FieldValueForbidden',
  message: `must remain ${JSON.stringify(was)}: preset "site" enforces it`,
})

describe('an update of enforced labels and annotations', () => {
  test.each<[string, object, object, readonly string[]]>([
    ['is unchanged with the stored values', { labels, annotations }, { labels, annotations }, []],
    ['gets all that it omits', {}, { labels, annotations }, [contact, builtIn, tier].map(remains)],
    [
      'gets a label with the name of a member of every object',
      { labels: { tier: 'gold' }, annotations },
      { labels, annotations },
      [remains(builtIn)],
    ],
    [
      "gets the preset's value in place of the one that it overrode, beside other labels",
      { labels: { ...labels, tier: 'silver', own: 'y' }, annotations },
      { labels: { ...labels, own: 'y' }, annotations },
      [remains(tier)],
    ],
  ])('%s', (_, sent, metadata, warnings) => {
    expect(restoreEnforced({ ...sent }, stored, origins)).toEqual({ metadata, warnings })
  })

  test('costs little with many labels of its own, however many are enforced', () => {
    const many = (count: number, letter: string) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`${letter}${index}`, '']))
    const enforced = many(400, 'e')
    const sent = { labels: many(100_000, 'own') }
    const paths = Object.keys(enforced).map((key) => [`metadata.labels.${key}`, site] as const)
    const of = { ...stored, metadata: { ...stored.metadata, labels: enforced } }
    const since = process.cpuUsage()
    const restored = restoreEnforced(sent, of, { ...origins, enforced: new Map(paths) })
    const { user, system } = process.cpuUsage(since)
    expect(restored).toMatchObject({ metadata: { labels: { own0: '', e399: '' } } })
    expect(user + system).toBeLessThan(2_000_000)
  })

  test('is refused with any other value, also of those that were overridden elsewhere', () => {
    const sent = { labels: { ...labels, tier: 'free' }, annotations: { contact: 'silver' } }
    expect(restoreEnforced(sent, stored, origins)).toEqual({
      causes: [changed(tier, 'gold', 'free'), changed(contact, 'ops', 'silver')],
    })
  })

  test.each<[string, unknown, readonly Cause[]]>([
    ['has no causes with the stored values', { labels, annotations }, []],
    [
      'has a cause for a changed value',
      { labels: { ...labels, tier: 'x' }, annotations },
      [changed(tier, 'gold', 'x')],
    ],
    ['has a cause for an omitted value', { labels, annotations: {} }, [omitted(contact, 'ops')]],
    [
      'has causes for all values if it has no metadata',
      undefined,
      [omitted(tier, 'gold'), omitted(builtIn, 'x'), omitted(contact, 'ops')],
    ],
  ])('%s', (_, sent, causes) => expect(enforcedCauses(sent, stored, origins)).toEqual(causes))
})
