import { describe, expect, test } from 'vitest'
import { authorAnnotation, type ObjectPreset } from '../../api/object-preset.ts'
import type { ObjectTarget, UnusableTarget } from '../../inventory/objects.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { createLogger } from '../../runtime/log.ts'
import type { Persisted } from '../../runtime/resource.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { gadgets, gadgetTarget } from '../../test/presets/objects.ts'
import type { Access } from '../admission/permission.ts'
import type { User } from '../admission/request.ts'
import { createAuthorReviews } from './author-reviews.ts'

const read = gadgets.get('Gadget of example.com/v1')?.()
if (read === undefined || !('kind' in read)) throw new Error('the definition has no kind')

const target = {
  apiVersion: 'virtset.io/v1alpha1' as const,
  kind: 'PresetTarget' as const,
  metadata: { name: 'gadgets.example.com' },
  spec: { ...gadgetTarget, failurePolicy: 'Fail' as const, restricted: ['spec.mode'] },
}
const usable: ObjectTarget = {
  target,
  kind: read.kind,
  resource: 'gadgets',
  candidates: createCandidates(),
  quarantined: new Map(),
}

interface Given {
  readonly name?: string
  readonly namespace?: string | undefined
  readonly author?: string | undefined
  readonly generation?: number
  readonly spec?: object
}

const preset = ({ author = 'jane', name = 'p', spec = {}, generation = 1, ...rest }: Given = {}) => {
  const namespace = 'namespace' in rest ? rest.namespace : 'team'
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: namespace === undefined ? 'ClusterObjectPreset' : 'ObjectPreset',
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      uid: name,
      resourceVersion: '1',
      generation,
      annotations: author === '' ? {} : { [authorAnnotation]: JSON.stringify({ username: author, groups: ['dev'] }) },
    },
    spec: { target: gadgetTarget, selector: {}, object: { spec } },
  } as Persisted<ObjectPreset>
}

interface World {
  readonly allow?: (user: User, access: Access) => boolean
  readonly entry?: ObjectTarget | UnusableTarget | undefined
}

function world({ allow = () => true, ...rest }: World = {}) {
  const clock = fakeClock()
  const state = { allow, isDown: false, entry: 'entry' in rest ? rest.entry : usable }
  const asked: string[] = []
  const lines: string[] = []
  const reviews = createAuthorReviews(
    async (user, access) => {
      if (state.isDown) throw new Error('no connection')
      asked.push(`${user.username} ${user.groups.join()} ${access.verb} ${access.namespace ?? '*'}`)
      return state.allow(user, access)
    },
    createLogger({ process: 'test', to: { write: (line: string) => lines.push(line) } }),
    clock,
  )
  const refresh = async (...presets: readonly Persisted<ObjectPreset>[]) => {
    await reviews.refresh({ storedPresets: () => presets, target: () => state.entry })
    return asked.splice(0)
  }
  const found = (one: Persisted<ObjectPreset>) => {
    const review = reviews.get(one)
    return review && [review.author.username, ...review.causes.map(({ field, message }) => `${field}: ${message}`)]
  }
  return { clock, state, refresh, found, lines }
}

const both = (who: string, where = 'team') => [`${who} dev create ${where}`, `${who} dev update ${where}`]
const lost = 'spec.target: writing a preset requires the permission to update gadgets in namespace "team"'

describe('reviews of authors', () => {
  test('find the permissions that an author has lost', async () => {
    const { refresh, found } = world({ allow: ({ username }, { verb }) => username === 'joe' || verb === 'create' })
    const presets = [preset(), preset({ name: 'q', author: 'joe' })] as const
    expect(found(presets[0])).toBeUndefined()
    expect((await refresh(...presets)).toSorted()).toEqual([...both('jane'), ...both('joe')])
    expect(presets.map(found)).toEqual([['jane', lost], ['joe']])
  })

  test('ask for the grant of a restricted field of a cluster preset', async () => {
    const { refresh, found } = world({ allow: (_, { verb }) => verb !== 'grant-host' })
    const plain = preset({ namespace: undefined })
    const granting = preset({ namespace: undefined, name: 'g', spec: { mode: 'Fast' } })
    expect(await refresh(plain)).toEqual(both('jane', '*'))
    expect(await refresh(granting)).toEqual([...both('jane', '*'), 'jane dev grant-host *'])
    expect([found(plain), found(granting)]).toEqual([
      ['jane'],
      ['jane', expect.stringMatching(/^spec\.object\.spec\.mode: is restricted.*"grant-host"/)],
    ])
  })

  test('are not shared by presets for different kinds', async () => {
    const { refresh } = world()
    const one = preset()
    const other = { ...one, spec: { ...one.spec, target: { ...gadgetTarget, kind: 'Other' } } }
    expect((await refresh(one, other)).toSorted()).toEqual([...both('jane'), ...both('jane')].toSorted())
  })

  test('are shared by the presets of a namespace, and not by those of the cluster or of other generations', async () => {
    const { refresh } = world()
    expect(await refresh(preset(), preset({ name: 'q' }), preset({ generation: 2 }))).toEqual(both('jane'))
    expect(await refresh(preset({ namespace: 'other' }))).toEqual(both('jane', 'other'))
    const ofCluster = (given: Given) => preset({ namespace: undefined, ...given })
    for (const one of [ofCluster({}), ofCluster({ name: 'q' }), ofCluster({ generation: 2 })]) {
      expect(await refresh(one)).toEqual(both('jane', '*'))
      expect(await refresh(one)).toEqual([])
    }
  })

  test('are repeated after ten minutes', async () => {
    const { refresh, clock, state, found } = world()
    await refresh(preset())
    state.allow = (_, { verb }) => verb === 'create'
    await clock.advance(10 * 60_000 - 1)
    expect([await refresh(preset()), found(preset())]).toEqual([[], ['jane']])
    await clock.advance(1)
    expect([await refresh(preset()), found(preset())]).toEqual([both('jane'), ['jane', lost]])
  })

  test('are at most 32 in a round, and the next round continues', async () => {
    const { refresh } = world()
    const presets = Array.from({ length: 80 }, (_, index) => preset({ namespace: `team-${index}` }))
    const rounds = [await refresh(...presets), await refresh(...presets), await refresh(...presets)]
    expect(rounds.map(({ length }) => length / 2)).toEqual([32, 32, 16])
    expect(new Set(rounds.flat()).size).toBe(160)
  })

  test('look at no more than 2,000 presets in a round', async () => {
    const { refresh } = world()
    const presets = Array.from({ length: 3000 }, (_, index) =>
      preset({ author: index < 10 ? 'jane' : '', namespace: `team-${index}` }),
    )
    const counts = []
    for (let round = 0; round < 3; round++) counts.push((await refresh(...presets)).length)
    expect(counts).toEqual([18, 2, 0])
  })

  test('keep what is known while the API server does not respond', async () => {
    const { refresh, clock, state, found, lines } = world()
    await refresh(preset())
    await clock.advance(10 * 60_000)
    state.isDown = true
    expect([await refresh(preset()), found(preset())]).toEqual([[], ['jane']])
    expect(lines).toEqual([expect.stringContaining('could not review the author of a preset; retrying')])
  })

  test.each<[string, World, Given]>([
    ['without a target', { entry: undefined }, {}],
    ['with a target that cannot be used', { entry: { target, causes: [] } }, {}],
    ['without a known author', {}, { author: '' }],
  ])('leave out a preset %s', async (_, given, of) => {
    const { refresh, found } = world(given)
    expect([await refresh(preset(of)), found(preset(of))]).toEqual([[], undefined])
  })
})
