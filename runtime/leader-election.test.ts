import * as fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import type { FakeApiServer, Fault } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { createKubeClient } from './kube.ts'
import { startLeaderElection } from './leader-election.ts'
import { createLogger } from './log.ts'

const log = createLogger({ process: 'test', level: 'silent' })
const collection = '/apis/coordination.k8s.io/v1/leases'
const lease = { namespace: 'system', name: 'controller' }

const opened: (() => Promise<unknown>)[] = []
const closeAll = async () => {
  for (const close of opened.splice(0).reverse()) await close()
}
afterEach(closeAll)

async function startServer() {
  const server = await startFakeApiServer()
  opened.push(() => server.close())
  return server
}

function startElector(
  server: FakeApiServer,
  identity: string,
  clock = fakeClock(),
  ready?: (signal: AbortSignal) => Promise<unknown>,
) {
  const kube = createKubeClient({ access: server.access, userAgent: identity, clock })
  const calls: string[] = []
  const election = startLeaderElection({
    kube,
    log,
    lease,
    identity,
    clock,
    random: () => 0,
    ...(ready === undefined ? {} : { ready }),
    onLeading: () => calls.push('leading'),
    onLost: (why) => calls.push(`lost: ${why}`),
  })
  opened.push(async () => {
    await election.stop()
    await kube.close()
  })
  return { election, clock, calls, identity }
}

const record = (server: FakeApiServer) => server.find(collection, lease.namespace, lease.name)?.['spec']

describe('leader election', () => {
  it('creates the lease, and renews it every two seconds', async () => {
    const server = await startServer()
    const { election, clock, calls } = startElector(server, 'one')
    await until(() => election.isLeader())
    expect(calls).toEqual(['leading'])
    expect(record(server)).toEqual({
      holderIdentity: 'one',
      leaseDurationSeconds: 15,
      acquireTime: '2030-01-01T00:00:00.000000Z',
      renewTime: '2030-01-01T00:00:00.000000Z',
      leaseTransitions: 0,
    })
    await clock.advance(2000)
    await until(() => JSON.stringify(record(server)).includes('"renewTime":"2030-01-01T00:00:02.000000Z"'))
    expect(record(server)).toMatchObject({ acquireTime: '2030-01-01T00:00:00.000000Z', leaseTransitions: 0 })
    expect(server.requests.map(({ method }) => method)).toEqual(['GET', 'POST', 'PUT'])
  })

  it('is not a candidate until it is ready', async () => {
    const server = await startServer()
    const caches = Promise.withResolvers<void>()
    const { election, clock } = startElector(server, 'one', fakeClock(), () => caches.promise)
    await clock.advance(20_000)
    expect([server.requests, election.isLeader()]).toEqual([[], false])
    caches.resolve()
    await until(() => election.isLeader())
  })

  it('can be stopped before it is ready', async () => {
    const server = await startServer()
    const never = (signal: AbortSignal) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    const { election } = startElector(server, 'one', fakeClock(), never)
    await election.stop()
    expect(server.requests).toEqual([])
  })

  it.each<[string, object]>([
    ['whatever the clocks show', { leaseDurationSeconds: 15, renewTime: '2099-01-01T00:00:00.000000Z' }],
    ['if the lease is for a second', { leaseDurationSeconds: 1 }],
    ['if the lease does not say for how long it is', {}],
  ])('another takes over 15 s of its own time after the last change that it saw, %s', async (_what, spec) => {
    const server = await startServer()
    server.put(collection, { metadata: lease, spec: { holderIdentity: 'dead', leaseTransitions: 4, ...spec } })
    const { election, clock } = startElector(server, 'two')
    for (let second = 0; second < 14; second += 2) {
      await until(() => clock.nextMs() === 2000)
      expect(election.isLeader()).toBe(false)
      await clock.advance(2000)
    }
    await until(() => clock.nextMs() === 2000)
    expect(election.leader()).toBe('dead')
    await clock.advance(2000)
    await until(() => election.isLeader())
    expect(record(server)).toMatchObject({ holderIdentity: 'two', leaseTransitions: 5 })
  })

  it('a restarted process with the same identity does not wait', async () => {
    const server = await startServer()
    server.put(collection, {
      metadata: lease,
      spec: { holderIdentity: 'one', leaseDurationSeconds: 15, leaseTransitions: 2 },
    })
    const { election } = startElector(server, 'one')
    await until(() => election.isLeader())
    expect(record(server)).toMatchObject({ holderIdentity: 'one', leaseTransitions: 2 })
  })

  it('stops leading when it could not renew for ten seconds, and reports that once', async () => {
    const server = await startServer()
    const { election, clock, calls } = startElector(server, 'one')
    await until(() => election.isLeader())
    server.fault = () => 'reset'
    await until(
      () => calls.length === 2,
      () => clock.advance(500),
    )
    expect(calls).toEqual(['leading', 'lost: the lease could not be renewed in time'])
    expect(clock.monotonic()).toBe(10_000)
    expect(election.isLeader()).toBe(false)
  })

  it('is not delayed by an API server that never responds', async () => {
    const server = await startServer()
    const { election, clock, calls } = startElector(server, 'one')
    await until(() => election.isLeader())
    server.fault = () => 'hang'
    await clock.advance(9999)
    expect(election.isLeader()).toBe(true)
    await clock.advance(1)
    await until(() => calls.length === 2)
    expect(election.isLeader()).toBe(false)
  })

  it('does not lead after a long pause of the process, even before a timer fired', async () => {
    const server = await startServer()
    const clock = fakeClock()
    let pausedMs = 0
    const { election } = startElector(server, 'one', { ...clock, monotonic: () => clock.monotonic() + pausedMs })
    await until(() => election.isLeader())
    pausedMs = 60_000
    expect(election.isLeader()).toBe(false)
  })

  it.each<[string, string | undefined, string[]]>([
    ['continues if no process wrote the lease', undefined, ['leading']],
    ['continues if the last write was its own', 'one', ['leading']],
    ['stops leading if another took the lease', 'two', ['leading', 'lost: "two" took the lease']],
    [
      'stops leading if another led and released the lease',
      '',
      ['leading', 'lost: the lease could not be renewed in time'],
    ],
  ])('after its event loop was blocked for 30 s it %s', async (_what, holderIdentity, expected) => {
    const server = await startServer()
    const clock = fakeClock()
    let blockedMs = 0
    const { election, calls } = startElector(server, 'one', {
      ...clock,
      monotonic: () => clock.monotonic() + blockedMs,
    })
    await until(() => election.isLeader() && clock.nextMs() === 2000)
    const stored = server.find(collection, lease.namespace, lease.name)!
    const leaseTransitions = holderIdentity === 'one' ? 0 : 1
    const spec = { ...(stored['spec'] as object), holderIdentity, leaseTransitions }
    if (holderIdentity !== undefined) server.put(collection, { ...stored, spec })
    blockedMs = 30_000
    expect(election.isLeader()).toBe(false)
    await clock.advance(2000)
    await until(() => election.isLeader() || calls.length === 2)
    expect(calls).toEqual(expected)
    expect(election.isLeader()).toBe(expected.length === 1)
  })

  it('releases the lease when it stops', async () => {
    const server = await startServer()
    const one = startElector(server, 'one')
    await until(() => one.election.isLeader())
    await one.election.stop()
    expect(one.calls).toEqual(['leading'])
    expect(record(server)).toMatchObject({ holderIdentity: '', leaseDurationSeconds: 1 })
    const two = startElector(server, 'two')
    await until(() => two.election.isLeader())
    expect(one.clock.pending()).toBe(0)
  })

  it('gives up when another identity is in the lease', async () => {
    const server = await startServer()
    const { election, clock, calls } = startElector(server, 'one')
    await until(() => election.isLeader())
    server.put(collection, { metadata: lease, spec: { holderIdentity: 'two', leaseDurationSeconds: 15 } })
    await until(
      () => calls.length === 2,
      () => clock.advance(500),
    )
    expect(calls[1]).toBe('lost: "two" took the lease')
  })

  it('does not lead after another client wrote the lease until it has renewed it, which it does at once', async () => {
    const server = await startServer()
    const { election, clock, calls } = startElector(server, 'one')
    await until(() => election.isLeader() && clock.nextMs() === 2000)
    server.put(collection, { metadata: lease, spec: { holderIdentity: 'one', leaseDurationSeconds: 15 } })
    const { promise, resolve } = Promise.withResolvers<undefined>()
    let sent = 0
    server.fault = ({ method }) => (method === 'PUT' && sent++ > 0 ? { heldUntil: promise } : undefined)
    await clock.advance(2000)
    await until(() => server.requests.length === 5)
    expect(election.isLeader()).toBe(false)
    resolve(undefined)
    await until(() => election.isLeader())
    expect([clock.monotonic(), calls]).toEqual([2000, ['leading']])
    expect(server.requests.map(({ method }) => method)).toEqual(['GET', 'POST', 'PUT', 'GET', 'PUT'])
  })

  it('has one leader if the lease is deleted: the holder creates it again', async () => {
    const server = await startServer()
    const one = startElector(server, 'one')
    await until(() => one.election.isLeader() && one.clock.nextMs() === 2000)
    const two = startElector(server, 'two')
    await until(() => two.clock.nextMs() === 2000)
    server.remove(collection, lease.namespace, lease.name)
    await two.clock.advance(2000)
    await until(() => two.clock.nextMs() === 2000)
    expect([one.election.isLeader(), two.election.isLeader()]).toEqual([true, false])
    await one.clock.advance(2000)
    await until(() => record(server) !== undefined)
    await until(() => one.election.isLeader())
    await two.clock.advance(2000)
    await until(() => two.clock.nextMs() === 2000)
    expect([one.calls, two.calls, two.election.leader()]).toEqual([['leading'], [], 'one'])
  })

  it('another takes over 15 s after it found the lease missing if it was deleted with its holder', async () => {
    const server = await startServer()
    server.put(collection, { metadata: lease, spec: { holderIdentity: 'dead', leaseDurationSeconds: 15 } })
    const { clock, election } = startElector(server, 'two')
    await until(() => clock.nextMs() === 2000)
    server.remove(collection, lease.namespace, lease.name)
    await clock.advance(2000)
    await until(() => record(server) !== undefined)
    expect(record(server)).toMatchObject({ holderIdentity: 'nobody: the lease was deleted', leaseDurationSeconds: 15 })
    const late = startElector(server, 'late')
    await until(() => late.clock.nextMs() === 2000)
    await until(
      () => election.isLeader(),
      async () => {
        if (clock.nextMs() === 2000) await clock.advance(2000)
      },
    )
    expect([clock.monotonic(), late.election.isLeader()]).toEqual([18_000, false])
    expect(record(server)).toMatchObject({ holderIdentity: 'two' })
  })

  it('waits for 15 s too if the lease that it saw before it was deleted had no spec', async () => {
    const server = await startServer()
    server.put(collection, { metadata: lease })
    server.fault = ({ method }) => (method === 'GET' ? undefined : { status: 500 })
    const { clock, election } = startElector(server, 'two')
    await until(() => clock.nextMs() === 2000)
    server.remove(collection, lease.namespace, lease.name)
    server.fault = undefined
    await clock.advance(2000)
    await until(() => record(server) !== undefined && clock.nextMs() === 2000)
    expect([record(server), election.isLeader()]).toMatchObject([
      { holderIdentity: 'nobody: the lease was deleted' },
      false,
    ])
  })

  it('has one leader if the lease is deleted after another could not read how long it was renewed', async () => {
    const server = await startServer()
    const one = startElector(server, 'one')
    await until(() => one.election.isLeader())
    const two = startElector(server, 'two')
    await until(() => two.clock.nextMs() === 2000)
    const faults = new Map<string, Fault>([['two', { status: 500 }]])
    server.fault = ({ headers }) => faults.get(headers['user-agent'] ?? '')
    const leaders: string[] = []
    const advance = async (seconds: number) => {
      for (let second = 0; second < seconds; second++) {
        for (const { clock } of [one, two]) await clock.advance(1000)
        await quiet(server)
        leaders.push(
          [one, two].flatMap(({ election, identity }) => (election.isLeader() ? identity : [])).join(' and '),
        )
      }
    }
    await advance(10)
    server.remove(collection, lease.namespace, lease.name)
    faults.set('one', 'hang').delete('two')
    await advance(25)
    expect(leaders.filter((name, index) => name !== leaders[index - 1])).toEqual(['one', '', 'two'])
  })

  it.each<[string, (second: number) => boolean, (second: number) => boolean]>([
    [
      'again after another could not read for 15 s',
      (second) => second === 2 || second === 18,
      (second) => second > 3 && second < 18,
    ],
    ['each time before another reads it', (second) => second % 2 === 0, () => false],
  ])('has one leader if the lease is deleted %s', async (_what, isDeleted, isUnread) => {
    const server = await startServer()
    const one = startElector(server, 'one')
    await until(() => one.election.isLeader() && one.clock.nextMs() === 2000)
    const two = startElector(server, 'two')
    await until(() => two.clock.nextMs() === 2000)
    const leaders = new Set<string>()
    for (let second = 1; second < 40; second++) {
      server.fault = ({ headers }) =>
        headers['user-agent'] === 'two' && isUnread(second) ? { status: 500 } : undefined
      await one.clock.advance(1000)
      await quiet(server)
      if (isDeleted(second)) server.remove(collection, lease.namespace, lease.name)
      await two.clock.advance(1000)
      await quiet(server)
      leaders.add([one, two].flatMap(({ election, identity }) => (election.isLeader() ? identity : [])).join(' and '))
    }
    expect([...leaders]).toEqual(['one'])
  })

  it('never two leaders, with partitions, lost responses, silence, clocks of different speed and a lease that is deleted', async () => {
    const fault = fc.constantFrom<Fault | undefined>(undefined, undefined, 'reset', 'reset-after', 'hang', {
      status: 500,
    })
    const episode = fc.record({ ticks: fc.integer({ min: 1, max: 12 }), faults: fc.tuple(fault, fault, fault) })
    const deletions = fc.uniqueArray(fc.nat(40), { maxLength: 20 })
    await fc.assert(
      fc.asyncProperty(fc.array(episode, { minLength: 3, maxLength: 8 }), deletions, async (episodes, deletedAt) => {
        const server = await startServer()
        const electors = ['one', 'two', 'three'].map((identity) => startElector(server, identity))
        const speeds = [1, 1.2, 0.9]
        let now: Record<string, Fault | undefined> = {}
        server.fault = ({ headers }) => now[headers['user-agent'] ?? '']
        const states = episodes.flatMap(({ ticks, faults }) => Array.from({ length: ticks }, () => faults))
        // One that has not seen it takes it at once, as is documented.
        await until(() => electors.every(({ election }) => election.leader() !== undefined))
        for (const [tick, faults] of states.entries()) {
          if (deletedAt.includes(tick)) server.remove(collection, lease.namespace, lease.name)
          now = Object.fromEntries(electors.map(({ identity }, index) => [identity, faults[index]]))
          for (const [index, { clock }] of electors.entries()) await clock.advance(tickMs * (speeds[index] ?? 1))
          await quiet(server)
          const leaders = electors.filter(({ election }) => election.isLeader()).map(({ identity }) => identity)
          expect(leaders.length).toBeLessThanOrEqual(1)
        }
        now = {}
        await closeAll()
        for (const { clock } of electors) expect(clock.pending()).toBe(0)
      }),
      { numRuns: 15 },
    )
  })
})

/** Short beside the lease, since the electors' clocks go on one after the other. */
const tickMs = 1900

/** Until no more requests come. */
async function quiet(server: FakeApiServer): Promise<void> {
  for (let before = -1; before !== server.requests.length;) {
    before = server.requests.length
    const untilMs = performance.now() + 2
    await until(() => performance.now() > untilMs)
  }
}
