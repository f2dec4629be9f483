import { afterEach, describe, expect, it } from 'vitest'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { fakeClock, settle } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { ApiError, ApiUnreachable } from './api-error.ts'
import { createEventRecorder } from './events.ts'
import type { EventContent } from './events.ts'
import { createKubeClient, type KubeClient } from './kube.ts'
import { createLogger } from './log.ts'

const collection = '/api/v1/events'
const regarding = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  namespace: 'default',
  name: 'vm1',
  uid: 'u1',
}
const created: EventContent = {
  regarding,
  type: 'Normal',
  reason: 'SuccessfulCreate',
  message: 'Created pod virt-launcher-vm1',
}

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

async function setUp() {
  const server = await startFakeApiServer()
  opened.push(() => server.close())
  const clock = fakeClock()
  const kube = createKubeClient({ access: server.access, userAgent: 'test', clock })
  opened.push(() => kube.close())
  let names = 0
  const logged: string[] = []
  const log = createLogger({ process: 'test', to: { write: (line) => logged.push(line) } })
  const recorder = createEventRecorder({
    kube,
    log,
    component: 'virtset-controller',
    instance: 'controller-0',
    clock,
    suffix: () => String(++names),
  })
  const counts = () => server.objects(collection).map((event) => [event['message'], event['count']])
  return { server, clock, recorder, counts, logged }
}

describe('event recorder', () => {
  it('gives an event a valid name, however long the name of its object is', async () => {
    const { server, recorder } = await setUp()
    recorder.record({ ...created, regarding: { ...regarding, name: `${'x'.repeat(229)}-y` } })
    await recorder.stop()
    const [event] = server.objects(collection)
    expect(event).toMatchObject({ metadata: { name: `${'x'.repeat(229)}.1` } })
  })

  it('loses no event while the API server cannot be reached', async () => {
    const written = new Set<string>()
    let isReachable = false
    const write = async (_: unknown, { metadata }: { metadata: { namespace?: string } }) => {
      if (!isReachable) throw new ApiUnreachable('POST')
      written.add(String(metadata.namespace))
    }
    const kube = { createUnread: write } as unknown as KubeClient
    const clock = fakeClock()
    const log = createLogger({ process: 'test', level: 'silent' })
    const recorder = createEventRecorder({ kube, log, component: 'c', instance: 'i', clock })
    for (let index = 0; index < 100; index++) {
      recorder.record({ ...created, regarding: { ...regarding, namespace: `team-${index}`, uid: `u${index}` } })
    }
    for (let second = 0; second < 60; second++) await clock.advance(1000)
    isReachable = true
    for (let second = 0; second < 16; second++) await clock.advance(1000)
    await recorder.stop()
    expect([written.size, recorder.statistics()]).toEqual([100, { waiting: 0, dropped: 0 }])
  })

  it('writes an event once, although responses are late, and gives up one that cannot be written', async () => {
    const clock = fakeClock()
    const stored: string[] = []
    const writes: string[] = []
    const write = async (_: unknown, { metadata, reason }: { metadata: { name: string }; reason: string }) => {
      writes.push(reason)
      if (reason === 'Broken') throw new RangeError('too deep')
      if (reason === 'Unwritable') throw new ApiUnreachable('POST')
      if (reason === 'Other') return
      if (stored.includes(metadata.name))
        throw new ApiError('POST', { code: 409, reason: 'AlreadyExists', message: 'already exists' })
      stored.push(metadata.name)
      await new Promise<void>((resolve) => clock.after(35_000, resolve))
      throw new ApiUnreachable('POST')
    }
    const kube = { createUnread: write } as unknown as KubeClient
    const log = createLogger({ process: 'test', level: 'silent' })
    const recorder = createEventRecorder({ kube, log, component: 'c', instance: 'i', clock })
    recorder.record(created)
    recorder.record({ ...created, reason: 'Broken', regarding: { ...regarding, namespace: 'other', uid: 'u2' } })
    recorder.record({ ...created, reason: 'Unwritable', regarding: { ...regarding, namespace: 'third', uid: 'u3' } })
    for (let second = 0; second < 120; second++) {
      recorder.record({
        ...created,
        reason: 'Other',
        regarding: { ...regarding, namespace: 'fourth', uid: `o${second}` },
      })
      await clock.advance(1000)
    }
    await recorder.stop()
    const count = (of: string) => writes.filter((reason) => reason === of).length
    expect([stored.length, count(created.reason), count('Broken'), count('Unwritable')]).toEqual([1, 2, 6, 7])
    expect(recorder.statistics()).toEqual({ waiting: 0, dropped: 2 })
  })

  it('writes what kubectl describe shows', async () => {
    const { server, recorder } = await setUp()
    recorder.record(created)
    await recorder.stop()
    const [event] = server.objects(collection)
    expect(event).toMatchObject({
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { namespace: 'default', name: 'vm1.1' },
      involvedObject: regarding,
      type: 'Normal',
      reason: 'SuccessfulCreate',
      message: 'Created pod virt-launcher-vm1',
      source: { component: 'virtset-controller', host: 'controller-0' },
      count: 1,
      firstTimestamp: '2030-01-01T00:00:00Z',
      lastTimestamp: '2030-01-01T00:00:00Z',
    })
  })

  it('writes a message that others decide in one line, with only characters that can be shown', async () => {
    const { recorder, counts } = await setUp()
    recorder.record({ ...created, message: 'no volume\u001b[2J\n  Status:  True\n' })
    await recorder.stop()
    expect(counts()).toEqual([['no volume\ufffd[2J; Status:  True', 1]])
  })

  it('ends a message that it shortens in an ellipsis, also if the rest without indentation is short', async () => {
    const { server, recorder } = await setUp()
    recorder.record({ ...created, message: 'x\n        '.repeat(600) })
    await until(() => server.objects(collection).length === 1)
    expect(server.objects(collection)[0]?.['message']).toMatch(/^x; .*x; …$/)
  })

  it('counts a repetition within ten minutes, and creates another Event after that', async () => {
    const { server, clock, recorder, counts } = await setUp()
    recorder.record(created)
    recorder.record(created)
    recorder.record({ ...created, message: 'other' })
    await until(() => server.objects(collection).length === 2)
    await clock.advance(60_000)
    recorder.record(created)
    await until(() => JSON.stringify(counts()).includes('3'))
    expect(counts()).toEqual([
      ['Created pod virt-launcher-vm1', 3],
      ['other', 1],
    ])
    expect(server.find(collection, 'default', 'vm1.1')).toMatchObject({ lastTimestamp: '2030-01-01T00:01:00Z' })
    await clock.advance(600_000)
    recorder.record(created)
    await until(() => server.objects(collection).length === 3)
  })

  it('creates another Event when the first has expired on the API server', async () => {
    const { server, recorder } = await setUp()
    recorder.record(created)
    await until(() => server.objects(collection).length === 1)
    server.remove(collection, 'default', 'vm1.1')
    recorder.record(created)
    await until(() => server.find(collection, 'default', 'vm1.2') !== undefined)
    expect(server.find(collection, 'default', 'vm1.2')).toMatchObject({ count: 1 })
  })

  it('limits an object to 25 Events and then one per five minutes, without affecting others', async () => {
    const { clock, recorder } = await setUp()
    for (let count = 0; count < 40; count++) recorder.record({ ...created, message: `${count}` })
    expect(recorder.statistics().dropped).toBe(15)
    recorder.record({ ...created, regarding: { ...regarding, uid: 'u2' } })
    expect(recorder.statistics().dropped).toBe(15)
    await clock.advance(300_000)
    recorder.record(created)
    recorder.record(created)
    expect(recorder.statistics().dropped).toBe(16)
  })

  it('logs few of the Events of a namespace that are refused, for example by its quota', async () => {
    const { server, recorder, logged } = await setUp()
    server.fault = ({ body }) => (JSON.stringify(body).includes('"default"') ? { status: 403 } : undefined)
    const recordIn = (namespace: string) => {
      for (let count = 0; count < 100; count++)
        recorder.record({ ...created, regarding: { ...regarding, namespace, uid: `${namespace}-${count}` } })
    }
    recordIn('default')
    await until(() => recorder.statistics().dropped === 100)
    expect(logged).toHaveLength(16)
    server.fault = () => ({ status: 403 })
    recordIn('other')
    await until(() => recorder.statistics().dropped === 200)
    expect(logged).toHaveLength(32)
  })

  it('retries when the API server is unavailable for a moment, and drops an Event that is refused', async () => {
    const { server, clock, recorder, counts } = await setUp()
    let faults = 2
    server.fault = () => (faults-- > 0 ? 'reset' : undefined)
    recorder.record(created)
    await until(
      () => counts().length === 1,
      () => clock.advance(1000),
    )
    server.fault = () => ({ status: 403 })
    recorder.record({ ...created, message: 'forbidden' })
    await until(() => recorder.statistics().dropped === 1)
    server.fault = undefined
    recorder.record({ ...created, message: 'after' })
    await until(() => counts().length === 2)
    expect(counts().map(([message]) => message)).toEqual(['Created pod virt-launcher-vm1', 'after'])
  })

  it('drops events while a thousand wait, and stops in time without a response', async () => {
    const { server, clock, recorder } = await setUp()
    server.fault = () => 'hang'
    for (let count = 0; count < 1100; count++)
      recorder.record({ ...created, regarding: { ...regarding, uid: `u${count}` } })
    expect(recorder.statistics()).toEqual({ waiting: 1000, dropped: 98 })
    const stopping = recorder.stop(2000)
    await clock.advance(2000)
    await stopping
    expect(recorder.statistics()).toEqual({ waiting: 0, dropped: 1100 })
    expect(clock.pending()).toBe(0)
  })

  it('drops events of the namespace that has the most waiting, and sends those of all namespaces in turn', async () => {
    const { server, recorder, counts } = await setUp()
    const [one, others] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const holds = new Map([
      ['busy-0', one],
      ['busy-1', others],
      ['slow-0', others],
      ['slow-1', others],
    ])
    server.fault = ({ body }) => {
      const hold = holds.get(String((body as { readonly message?: unknown }).message))
      return hold && { heldUntil: hold.promise }
    }
    const record = (namespace: string, count: number) => {
      for (let index = 0; index < count; index++) {
        const name = `${namespace}-${index}`
        recorder.record({ ...created, message: name, regarding: { ...regarding, namespace, name, uid: name } })
      }
    }
    record('slow', 2)
    record('busy', 1003)
    await until(() => server.requests.length === 4)
    record('calm', 3)
    record('other', 2)
    expect(recorder.statistics()).toEqual({ waiting: 1000, dropped: 6 })
    // Three of four writes are held, so the order of the rest is known.
    one.resolve()
    await until(() => recorder.statistics().waiting === 0)
    await until(() => counts().length === 1001)
    const sent = counts().map(([message]) => String(message))
    expect(sent.slice(0, 8)).toEqual(['busy-0', 'busy-2', 'calm-0', 'other-0', 'busy-3', 'calm-1', 'other-1', 'busy-4'])
    expect(sent.at(-1)).toBe('busy-996')
    others.resolve()
    await recorder.stop()
    expect(counts().length).toBe(1004)
  })

  it('writes events of four objects at once, two of a namespace, and those of an object one by one', async () => {
    const { server, recorder, counts } = await setUp()
    const held = Promise.withResolvers<void>()
    server.fault = () => ({ heldUntil: held.promise })
    const record = (namespace: string, uid: string) =>
      recorder.record({ ...created, message: uid, regarding: { ...regarding, namespace, uid } })
    for (const uid of ['a1', 'a1', 'a2', 'a3']) record('a', uid)
    record('b', 'b1')
    await until(() => server.requests.length === 3)
    expect(recorder.statistics().waiting).toBe(2)
    for (const uid of ['c1', 'c2']) record('c', uid)
    await until(() => server.requests.length === 4)
    expect(recorder.statistics().waiting).toBe(3)
    held.resolve()
    await recorder.stop()
    expect(Object.fromEntries(counts())).toEqual({ a1: 2, a2: 1, a3: 1, b1: 1, c1: 1, c2: 1 })
  })

  it('leaves one of the four writes to others while the namespaces are slow that have more to write', async () => {
    const clock = fakeClock()
    const started: string[] = []
    const held: (() => void)[] = []
    const write = (_: unknown, { metadata: { namespace = '' } }: { metadata: { namespace?: string } }) => {
      started.push(namespace)
      return new Promise<void>((resolve) => held.push(resolve))
    }
    const kube = { createUnread: write } as unknown as KubeClient
    const log = createLogger({ process: 'test', level: 'silent' })
    const recorder = createEventRecorder({ kube, log, component: 'c', instance: 'i', clock })
    let objects = 0
    const record = (namespace: string) =>
      recorder.record({ ...created, regarding: { ...regarding, namespace, uid: `u${objects++}` } })
    const end = async () => {
      for (const resolve of held.splice(0)) resolve()
      await settle()
    }
    for (const namespace of ['slow-1', 'slow-2', 'calm-1', 'calm-2']) record(namespace)
    await clock.advance(500)
    held.splice(2).forEach((resolve) => resolve())
    await clock.advance(1)
    await end()
    started.length = 0
    for (const namespace of ['slow-1', 'slow-1', 'slow-2', 'slow-2', 'calm-1', 'calm-2']) record(namespace)
    expect(started).toEqual(['slow-1', 'slow-1', 'slow-2', 'calm-1'])
    await end()
    expect(started.slice(4)).toEqual(['slow-2', 'calm-2'])
    await end()
    expect(recorder.statistics()).toEqual({ waiting: 0, dropped: 0 })
  })

  it('writes those of other namespaces while some wait to be tried again, and keeps the order of an object', async () => {
    const { server, clock, recorder, counts } = await setUp()
    const isFailing = (body: unknown) => JSON.stringify(body).includes('failing')
    server.fault = ({ body }) => (isFailing(body) ? { status: 500 } : undefined)
    const record = (namespace: string, name: string, message: string) =>
      recorder.record({
        ...created,
        message,
        regarding: { ...regarding, namespace, name, uid: `${namespace}-${name}` },
      })
    for (const namespace of ['a', 'b', 'c']) {
      for (const name of ['vm0', 'vm1', 'vm2']) {
        record(namespace, name, `failing ${name}`)
        record(namespace, name, `second ${name}`)
      }
    }
    // Of each namespace two, of two objects.
    await until(() => server.requests.length === 6)
    record('calm', 'vm', 'calm')
    await until(() => counts().length === 1)
    expect(counts()).toEqual([['calm', 1]])
    expect(recorder.statistics()).toEqual({ waiting: 18, dropped: 0 })
    expect(server.requests.length).toBe(7)
    server.fault = undefined
    const stopping = recorder.stop()
    await clock.advance(1000)
    await stopping
    const sent = server.objects(collection).map(({ metadata, ...event }) => [metadata.namespace, event['message']])
    expect(sent).toHaveLength(19)
    for (const namespace of ['a', 'b', 'c']) {
      const own = sent.filter(([of]) => of === namespace).map(([, message]) => message)
      for (const name of ['vm0', 'vm1', 'vm2'])
        expect(own.indexOf(`failing ${name}`)).toBeLessThan(own.indexOf(`second ${name}`))
    }
  })

  it('drops those that wait to be tried again like others that wait', async () => {
    const { server, clock, recorder, counts } = await setUp()
    server.fault = ({ body }) => (JSON.stringify(body).includes('failing') ? { status: 500 } : undefined)
    const record = (namespace: string, name: string, message: string) =>
      recorder.record({
        ...created,
        message,
        regarding: { ...regarding, namespace, name, uid: `${namespace}-${name}` },
      })
    for (let index = 0; index < 1100; index++) record('busy', `vm${index}`, 'failing')
    await until(() => recorder.statistics().dropped === 100)
    await until(() => recorder.statistics().waiting === 1000)
    record('calm', 'vm', 'first')
    await until(() => counts().length === 1)
    // Room for the new event was that of one that was to be tried again, and the next one was tried.
    await until(() => recorder.statistics().waiting === 999)
    expect(recorder.statistics().dropped).toBe(101)
    const stopping = recorder.stop(2000)
    await clock.advance(2000)
    await stopping
    expect(recorder.statistics().waiting).toBe(0)
    expect(clock.pending()).toBe(0)
  })
})
