import { describe, expect, test } from 'vitest'
import {
  authorityLifeMs,
  backdateMs,
  leafLifeMs,
  maxTrusted,
  maxTrustedLength,
  planCertificates,
  settleMs,
} from './plan.ts'
import type { Authority, Certificate, Keyring, Leaf, Observed } from './plan.ts'

const dayMs = 24 * 3600 * 1000
const dnsNames = ['virtset-webhooks.virtset-system.svc']

/** The plan reads only names and times, so these need no real certificates. */
function authorityAt(nowMs: number, subject: string): Authority {
  return { pem: subject, subject, key: subject, notBefore: nowMs - backdateMs, notAfter: nowMs + authorityLifeMs }
}

function leafAt(nowMs: number, by: Authority, pem: string): Leaf {
  const notAfter = Math.min(nowMs + leafLifeMs, by.notAfter)
  return { pem, subject: 'leaf', key: pem, issuer: by.subject, dnsNames, notBefore: nowMs - backdateMs, notAfter }
}

/** An authority of somebody else that has the subject of ours. */
const forge = (authority: Certificate): Certificate => {
  const { pem, subject, notBefore, notAfter } = authority
  return { pem: `forged ${pem}`, subject, notBefore, notAfter }
}

const hasSigned = ({ pem, subject }: Certificate, { issuer }: Leaf): boolean =>
  subject === issuer && !pem.startsWith('forged')

describe('plans the next step', () => {
  const day0 = Date.UTC(2026, 10, 21)
  const first = authorityAt(day0, 'a')
  const second = authorityAt(day0 + 250 * dayMs, 'b')
  const leaf = leafAt(day0, first, 'leaf a')
  const foreign = authorityAt(day0, 'f')
  const late = { ...leaf, pem: 'late', notBefore: day0 + 1 }
  const settledKeyring = { authorities: [first], trusted: [], leaf }
  const settled: Observed = {
    nowMs: day0 + settleMs,
    dnsNames,
    keyring: settledKeyring,
    bundles: [[first], [first]],
    hasSigned,
  }
  const step = (change: Partial<Observed>) => {
    const next = planCertificates({ ...settled, ...change })
    if (next.kind === 'publish') return [next.kind, ...next.certificates.map(({ pem }) => pem)]
    if (next.kind === 'issue') return [next.kind, next.by.pem]
    return next.kind === 'serve' ? [next.kind, next.leaf.pem] : [next.kind]
  }

  test.each<[string, Partial<Observed>, string[]]>([
    ['everything is in order', {}, ['serve', 'leaf a']],
    ['nothing exists', { keyring: { authorities: [], trusted: [] }, bundles: [[], []] }, ['create-authority']],
    ['the authority is new', { keyring: { authorities: [first], trusted: [] }, bundles: [[], []] }, ['publish', 'a']],
    ['the authority is published', { keyring: { authorities: [first], trusted: [] } }, ['issue', 'a']],
    ['a bundle was emptied', { bundles: [[first], []] }, ['publish', 'a']],
    ['a foreign authority was added to a bundle', { bundles: [[first], [first, second]] }, ['publish', 'a']],
    [
      'an authority with its name was added to a bundle',
      { bundles: [[first], [first, forge(first)]] },
      ['publish', 'a'],
    ],
    ['the leaf has a third of its life left', { nowMs: day0 + (leafLifeMs * 2) / 3 }, ['issue', 'a']],
    [
      'the leaf has just more than a third of its life left',
      { nowMs: day0 + (leafLifeMs * 2) / 3 - 1 },
      ['serve', 'leaf a'],
    ],
    ['the Service has another name', { dnsNames: ['other'] }, ['issue', 'a']],
    ['the authority has a third of its life left', { nowMs: day0 + (authorityLifeMs * 2) / 3 }, ['create-authority']],
    [
      'a second authority is not published yet',
      {
        nowMs: day0 + 250 * dayMs,
        keyring: { authorities: [first, second], trusted: [] },
      },
      ['publish', 'a', 'b'],
    ],
    [
      'a second authority is published, but an API server might not trust it yet',
      {
        nowMs: day0 + 250 * dayMs + settleMs - 1,
        keyring: { authorities: [first, second], trusted: [] },
        bundles: [[first, second]],
      },
      ['issue', 'a'],
    ],
    [
      'every API server trusts a second authority',
      {
        nowMs: day0 + 250 * dayMs + settleMs,
        keyring: { authorities: [first, second], trusted: [] },
        bundles: [[second, first]],
      },
      ['issue', 'b'],
    ],
    [
      'an authority without its key may have signed what another replica serves',
      { nowMs: day0 + 2 * settleMs - 1, keyring: { authorities: [first], trusted: [foreign], leaf } },
      ['publish', 'a', 'f'],
    ],
    [
      'an authority without its key has signed nothing that is served',
      { nowMs: day0 + 2 * settleMs, keyring: { authorities: [first], trusted: [foreign], leaf } },
      ['store'],
    ],
    [
      'the leaf was not signed by any known authority',
      { keyring: { authorities: [first], trusted: [], leaf: leafAt(day0, foreign, 'leaf f') }, nowMs: day0 },
      ['issue', 'a'],
    ],
    [
      'the leaf has no name that the served one has',
      { keyring: { ...settledKeyring, leaf: { ...leaf, pem: 'other', dnsNames: [] } }, served: leaf },
      ['issue', 'a'],
    ],
    [
      'the leaf is missing and the served one has a third of its life left',
      { nowMs: day0 + (leafLifeMs * 2) / 3, keyring: { authorities: [first], trusted: [] }, served: leaf },
      ['issue', 'a'],
    ],
    ['the authority and the leaf become valid', { nowMs: day0 - backdateMs }, ['serve', 'leaf a']],
    ['the authority is not valid yet', { nowMs: day0 - backdateMs - 1 }, ['create-authority']],
    ['the leaf is not valid yet', { nowMs: day0, keyring: { ...settledKeyring, leaf: late } }, ['issue', 'a']],
    [
      'the leaf becomes valid',
      { nowMs: late.notBefore, keyring: { ...settledKeyring, leaf: late } },
      ['serve', 'late'],
    ],
    ['the clock is two days slow', { nowMs: day0 - 2 * dayMs }, ['serve', 'leaf a']],
    ['the clock is two days fast', { nowMs: day0 + 2 * dayMs }, ['serve', 'leaf a']],
    [
      'the old authority has expired',
      {
        nowMs: first.notAfter,
        keyring: { authorities: [first, second], trusted: [], leaf: leafAt(first.notAfter - dayMs, second, 'leaf b') },
        bundles: [[first, second]],
      },
      ['store'],
    ],
  ])('when %s', (_, change, expected) => expect(step(change)).toEqual(expected))

  test('serves the leaf of an authority that lost its key until every API server trusts another one', () => {
    const key = { authorities: [authorityAt(day0 + dayMs, 'b')], trusted: [first], leaf }
    const at = (ms: number) =>
      planCertificates({ ...settled, nowMs: day0 + dayMs + ms, keyring: key, bundles: [[first, ...key.authorities]] })
    expect([at(0).kind, at(settleMs - 1).kind, at(settleMs).kind]).toEqual(['serve', 'serve', 'issue'])
    const { leaf: _lost, ...without } = key
    const found = planCertificates({
      ...settled,
      nowMs: day0 + dayMs,
      served: leaf,
      keyring: without,
      bundles: [[first, ...key.authorities]],
    })
    expect(found).toEqual({ kind: 'store', keyring: key })
  })

  test('keeps trusting the authority of the served leaf when the Secret was deleted', () => {
    const keyring: Keyring = { authorities: [], trusted: [] }
    const next = planCertificates({ ...settled, keyring, served: leaf })
    expect(next).toStrictEqual({ kind: 'create-authority', keep: { authorities: [], trusted: [first] } })
  })

  test.each<[string, Partial<Observed>, string[]]>([
    ['deleted', { keyring: { authorities: [], trusted: [] } }, ['a']],
    ['without its authorities', { keyring: { authorities: [], trusted: [], leaf } }, ['a']],
    ['without their keys', { keyring: { authorities: [], trusted: [first], leaf } }, ['a']],
  ])('keeps trusting what other replicas may serve when it starts with a Secret %s', (_, change, expected) => {
    const forgeries = Array.from({ length: 100 }, (_, index) => forge({ ...first, pem: `a ${index}` }))
    let verified = 0
    const next = planCertificates({
      ...settled,
      bundles: [[first, second], [...forgeries, foreign, first], []],
      hasSigned: (...of) => ++verified > 0 && hasSigned(...of),
      ...change,
    })
    expect(verified).toBeLessThanOrEqual(maxTrusted)
    expect([next.kind, 'keep' in next && next.keep.trusted.map(({ pem }) => pem)]).toEqual([
      'create-authority',
      expected,
    ])
  })

  test('keeps only some authorities of a damaged bundle, among them the newest', () => {
    const many = Array.from({ length: 1000 }, (_, index) => authorityAt(day0 - index * dayMs - 1, `old ${index}`))
    const long = { ...first, pem: 'l'.repeat(maxTrustedLength + 1) }
    const next = planCertificates({
      ...settled,
      keyring: { authorities: [], trusted: many.slice(0, 100) },
      bundles: [[...many, long, first], [first]],
    })
    expect(next).toMatchObject({
      kind: 'create-authority',
      keep: { trusted: [first, ...many.slice(0, maxTrusted - 1)] },
    })
  })

  test('serves its leaf until every API server trusts the authority that another replica created', () => {
    const third = authorityAt(day0 + dayMs, 'c')
    const keyring = { authorities: [third], trusted: [first], leaf: leafAt(day0 + dayMs, third, 'leaf c') }
    const at = (ms: number) => step({ nowMs: day0 + dayMs + ms, keyring, served: leaf, bundles: [[first, third]] })
    expect([at(0), at(settleMs - 1), at(settleMs)]).toEqual([
      ['serve', 'leaf a'],
      ['serve', 'leaf a'],
      ['serve', 'leaf c'],
    ])
  })

  describe('when the Secret was restored from a backup', () => {
    const backup = authorityAt(day0 - dayMs, 'backup')
    const restored: Keyring = { authorities: [backup], trusted: [], leaf: leafAt(day0, backup, 'leaf of the backup') }

    test('replaces its authority, and keeps that of the served leaf', () => {
      const next = planCertificates({ ...settled, keyring: restored, served: leaf })
      expect(next).toStrictEqual({ kind: 'create-authority', keep: { authorities: [], trusted: [first] } })
    })

    test.each<[string, Partial<Observed>, string[]]>([
      ['the authority was created just now', { nowMs: day0 - dayMs + settleMs - 1 }, ['store']],
      ['its authority is in a bundle', { bundles: [[first], [first, backup]] }, ['store']],
      ['the bundles were replaced, and not the Secret', { bundles: [[foreign]] }, ['publish', 'backup']],
      ['there is no APIService', { bundles: [] }, ['serve', 'leaf of the backup']],
    ])('keeps its authority if %s', (_, change, expected) => {
      expect(step({ keyring: restored, served: leaf, ...change })).toEqual(expected)
    })
  })
})

/** A deterministic random number generator (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

interface Cluster {
  secret: { version: number; keyring: Keyring } | undefined
  bundles: (readonly Certificate[])[]
  versions: number
  authorities: number
  leaves: number
}

interface Replica {
  served?: Leaf
  /** What it observed; by the time it acts, the others may have acted too. */
  snapshot?: { version: number | undefined; observed: Observed }
}

const observe = (cluster: Cluster, replica: Replica, nowMs: number) => {
  const keyring = cluster.secret?.keyring ?? { authorities: [], trusted: [] }
  const served = replica.served === undefined ? {} : { served: replica.served }
  const observed = { nowMs, dnsNames, keyring, bundles: cluster.bundles, hasSigned, ...served }
  replica.snapshot = { version: cluster.secret?.version, observed }
}

/** Returns whether the replica has settled. */
function act(cluster: Cluster, replica: Replica, nowMs: number): boolean {
  if (replica.snapshot === undefined) return false
  const { version, observed } = replica.snapshot
  const step = planCertificates(observed)
  const store = (keyring: Keyring) => {
    if (cluster.secret?.version === version) cluster.secret = { version: ++cluster.versions, keyring }
  }
  if (step.kind === 'create-authority') {
    const { keep } = step
    store({ ...keep, authorities: [...keep.authorities, authorityAt(nowMs, `authority ${++cluster.authorities}`)] })
  }
  if (step.kind === 'store') store(step.keyring)
  if (step.kind === 'issue') store({ ...step.keep, leaf: leafAt(nowMs, step.by, `leaf ${++cluster.leaves}`) })
  if (step.kind === 'publish') cluster.bundles = cluster.bundles.map(() => step.certificates)
  if (step.kind === 'serve') replica.served = step.leaf
  return step.kind === 'serve'
}

const isDistrusted =
  ({ bundles }: Cluster) =>
  ({ served }: Replica): boolean =>
    served !== undefined && !bundles.every((bundle) => bundle.some((authority) => hasSigned(authority, served)))

describe('three replicas and one Secret over three years', () => {
  test.each([1, 2, 3])('never serve a certificate that the API server does not trust (seed %d)', (seed) => {
    const random = seeded(seed)
    const cluster: Cluster = { secret: undefined, bundles: [[], []], versions: 0, authorities: 0, leaves: 0 }
    const replicas: Replica[] = [{}, {}, {}]
    const distrusted: string[] = []
    const stored = { authorities: new Set<string>(), leaves: new Set<string>() }
    const start = Date.UTC(2026, 10, 21)
    for (let nowMs = start; nowMs < start + 3 * authorityLifeMs; nowMs += 6 * 3600 * 1000) {
      // They act in random order, half of the time on what they observed before the others acted.
      for (let round = 0; round < 12; round++) {
        if (random() < 0.5) for (const replica of replicas) observe(cluster, replica, nowMs)
        const order = replicas.toSorted(() => random() - 0.5)
        for (const replica of order) {
          if (random() < 0.5) observe(cluster, replica, nowMs)
          act(cluster, replica, nowMs)
          for (const { pem } of cluster.secret?.keyring.authorities ?? []) stored.authorities.add(pem)
          if (cluster.secret?.keyring.leaf) stored.leaves.add(cluster.secret.keyring.leaf.pem)
        }
        for (const { served } of replicas) {
          if (served === undefined) continue
          const isTrusted = cluster.bundles.every((bundle) => bundle.some(({ subject }) => subject === served.issuer))
          const isValid = served.notBefore <= nowMs && nowMs < served.notAfter
          if (!isTrusted || !isValid) distrusted.push(`${served.pem} at ${new Date(nowMs).toISOString()}`)
        }
      }
    }
    expect(distrusted).toEqual([])
    expect(replicas.map(({ served }) => served?.pem)).toEqual(replicas.map(() => cluster.secret?.keyring.leaf?.pem))
    // In 3 years: 4 or 5 authorities (one every 243 days) and 235 leaves (one every 4.7 days).
    expect(stored.authorities.size).toBeLessThanOrEqual(6)
    expect(stored.leaves.size).toBeLessThan(300)
    expect(cluster.bundles[0]?.length).toBeLessThanOrEqual(2)
  })

  test.each([4, 5, 6])('repair any tampering with the Secret and the bundles (seed %d)', (seed) => {
    const random = seeded(seed)
    const cluster: Cluster = { secret: undefined, bundles: [[], [], []], versions: 0, authorities: 0, leaves: 0 }
    const replicas: Replica[] = [{}, {}, {}]
    const isForged = ({ pem }: Certificate) => pem.startsWith('forged')
    const intruder = authorityAt(0, 'intruder')
    let backup: Keyring | undefined
    const start = Date.UTC(2026, 10, 21)
    for (let nowMs = start; nowMs < start + authorityLifeMs; nowMs += 12 * 3600 * 1000) {
      const keyring = cluster.secret?.keyring
      const tampering = Math.floor(random() * 10)
      if (tampering === 0) cluster.secret = undefined
      if (tampering === 1) cluster.bundles = [[], [intruder], []]
      if (tampering === 2 && keyring)
        cluster.secret = { version: ++cluster.versions, keyring: { ...keyring, authorities: [] } }
      if (tampering === 3 && keyring) {
        const { leaf: _, ...rest } = keyring
        cluster.secret = { version: ++cluster.versions, keyring: rest }
      }
      if (tampering === 4 && backup) cluster.secret = { version: ++cluster.versions, keyring: backup }
      else if (random() < 0.1) backup = cluster.secret?.keyring
      // Somebody who can write one bundle adds an authority of his own with the subject of ours.
      if (random() < 0.5) {
        cluster.bundles = cluster.bundles.map((bundle, index) =>
          index === 0 ? [...bundle, ...bundle.map(forge)].toReversed() : bundle,
        )
      }
      let settled = 0
      const turn = (replica: Replica, atMs: number) => {
        observe(cluster, replica, atMs)
        const isSettled = act(cluster, replica, atMs)
        expect([cluster.secret?.keyring.trusted ?? [], ...cluster.bundles.slice(1)].flat().filter(isForged)).toEqual([])
        // Until they are repaired, bundles that were overwritten trust nobody.
        expect(tampering === 1 ? [] : replicas.filter(isDistrusted(cluster))).toEqual([])
        return isSettled
      }
      // A replica that starts may take all its steps before the others look. From a backup, it serves what it finds.
      if (tampering !== 4 && random() < 0.5) {
        const started = {}
        replicas.splice(0, 1, started)
        for (let step = 0; step < 10; step++) turn(started, nowMs)
      }
      for (const atMs of [nowMs, nowMs + settleMs]) {
        const settles = (replica: Replica) => turn(replica, atMs)
        settled = 0
        for (let round = 0; round < 30 && settled < replicas.length; round++) settled = replicas.filter(settles).length
      }
      expect(settled).toBe(replicas.length)
      const trusted = cluster.bundles.map((bundle) => bundle.map(({ subject }) => subject))
      const issuers = replicas.map(({ served }) => served?.issuer ?? 'none')
      expect(trusted.every((names) => issuers.every((issuer) => names.includes(issuer)))).toBe(true)
      expect(trusted.flat().includes('intruder')).toBe(false)
    }
  })
})
