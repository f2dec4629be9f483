import { expect, test } from 'vitest'
import { ApiError, ApiUnreachable } from '../runtime/api-error.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { fakeClock, settle } from '../test/fake-clock.ts'
import type { Closed, Receiver } from './attachment.ts'
import { attachConsole, printLog, type ConsoleFlags, type LogFlags } from './console.ts'
import { noSessions } from '../test/cli/world.ts'
import type { Cluster } from './world.ts'

const refusal = (code: number, reason: string, message: string) => new ApiError('GET', { code, reason, message })
const epoch = '0123abcd'

/** A terminal and a cluster whose sessions the test opens, refuses and ends. */
function start(given: { readonly hasConfig?: boolean; readonly isOutTerminal?: boolean } = {}) {
  const clock = fakeClock()
  const shown = { out: '', err: '' }
  const modes: boolean[] = []
  const paths: string[] = []
  /** What the next sessions do. */
  const answers: ((receiver: Receiver) => Promise<Closed>)[] = []
  const typed: string[] = []
  let isReading = false
  let onInput: (chunk: Buffer) => void = () => {}
  const answer = (path: string, receiver: Receiver): Promise<Closed> => {
    paths.push(path)
    const next = answers.shift()
    if (next === undefined) throw refusal(409, 'Conflict', 'its phase is Succeeded')
    return next(receiver)
  }
  const kube: Pick<KubeClient, 'get'> = {
    get: async () => {
      if (given.hasConfig === true) return {} as never
      throw refusal(404, 'NotFound', 'not found')
    },
  }
  const cluster: Cluster = {
    ...noSessions,
    kube: kube as KubeClient,
    server: 'https://cluster',
    namespace: 'team',
    attach: async (path, receiver) => ({
      closed: answer(path, receiver),
      send: (chunk) => {
        typed.push(Buffer.from(chunk).toString())
        return undefined
      },
      close: () => {},
    }),
    stream: async (path, receiver) => ({ ended: answer(path, receiver).then(({ code }) => code === 1000) }),
  }
  const world = {
    out: (text: string) => void (shown.out += text),
    err: (text: string) => void (shown.err += text),
    isOutTerminal: given.isOutTerminal ?? false,
    clock,
    terminal: {
      isInteractive: true,
      setRaw: (isRaw: boolean) => void modes.push(isRaw),
      read: (listener: (chunk: Buffer) => void) => {
        isReading = true
        onInput = listener
        return () => {
          isReading = false
        }
      },
      write: (chunk: Uint8Array) => void (shown.out += Buffer.from(chunk).toString()),
    },
  }
  return {
    clock,
    shown,
    paths,
    answers,
    typed,
    isReading: () => isReading,
    isRaw: () => modes.at(-1) === true,
    type: async (text: string) => {
      onInput(Buffer.from(text))
      await settle()
    },
    console: (flags: ConsoleFlags = {}) => attachConsole('web', flags, cluster, world),
    log: (flags: LogFlags = {}) => printLog('web', flags, cluster, world),
  }
}

/** A session that prints a text from a position on, and ends like this. */
const prints =
  (text: string, offset: number, closed: Promise<Closed> | Closed, of = epoch) =>
  async (receiver: Receiver): Promise<Closed> => {
    receiver.begin({ epoch: of, offset })
    await receiver.receive(Buffer.from(text))
    return closed
  }
const never = new Promise<Closed>(() => {})
const ended = { code: 1000, reason: 'the VM has ended' }
const restarted = { code: 1012, reason: 'service restart' }
const subresource = '/apis/sessions.virtset.io/v1alpha1/namespaces/team/virtualmachines/web'

test('shows the past, types, and leaves with ^], which is not typed', async () => {
  const one = start()
  one.answers.push(prints('login: ', 0, never))
  const running = one.console()
  await settle()
  expect([one.isRaw(), one.shown.out]).toEqual([true, 'login: '])
  await one.type('root\r')
  await one.type('ls\u001Dnot typed')
  expect(await running).toBe(0)
  expect(one.typed).toEqual(['root\r', 'ls'])
  expect(one.shown.err).toBe(
    'Connected to web. Press ^] to leave.\n\nLeft the console of web. The VM continues to run.\n',
  )
  expect([one.isRaw(), one.isReading(), one.paths]).toEqual([false, false, [`${subresource}/attach/console`]])
})

test('ends with the VM', async () => {
  const one = start()
  one.answers.push(prints('bye\n', 0, ended))
  expect(await one.console({ namespace: 'team', tail: 5 })).toBe(0)
  expect(one.shown.err).toContain('The console was closed: the VM has ended.')
  expect([one.isRaw(), one.isReading(), one.paths]).toEqual([
    false,
    false,
    [`${subresource}/attach/console?tailBytes=5`],
  ])
})

test('fails when the permission is revoked', async () => {
  const one = start()
  one.answers.push(prints('', 0, { code: 1008, reason: 'the permission for this session was revoked' }))
  expect(await one.console()).toBe(1)
  expect(one.shown.err).toContain('the permission for this session was revoked')
})

test('with --no-input it reads nothing and leaves the terminal as it is', async () => {
  const one = start()
  one.answers.push(prints('', 0, ended))
  expect(await one.console({ input: false })).toBe(0)
  expect([one.isRaw(), one.isReading()]).toEqual([false, false])
  expect(one.shown.err).toContain('Connected to web.\n')
})

test('connects again where the output stopped, after a retry, and reports lost output', async () => {
  const one = start()
  one.answers.push(
    prints('abc', 10, restarted),
    () => {
      throw refusal(503, 'ServiceUnavailable', 'no replica')
    },
    prints('def', 13, { code: 1006, reason: '' }),
    prints('xyz', 20, ended),
  )
  const running = one.console()
  await one.clock.advance(10_000)
  expect(await running).toBe(0)
  expect(one.shown.out).toBe('abcdefxyz')
  expect(one.paths.slice(1)).toEqual([
    `${subresource}/attach/console?after=0123abcd.13`,
    `${subresource}/attach/console?after=0123abcd.13`,
    `${subresource}/attach/console?after=0123abcd.16`,
  ])
  expect(one.shown.err).toContain('The connection was lost (service restart); connecting again …\nConnected again.\n')
  expect(one.shown.err).toContain('The connection was lost (code 1006)')
  expect(one.shown.err).toContain('4 bytes of the output were lost.')
})

test('connects again from the oldest output if the position is out of range', async () => {
  const one = start()
  one.answers.push(prints('abc', 999_999_999_999_999, restarted), prints('old', 0, ended))
  const running = one.console({ tail: 5 })
  await one.clock.advance(1000)
  expect(await running).toBe(0)
  expect(one.paths).toEqual([`${subresource}/attach/console?tailBytes=5`, `${subresource}/attach/console`])
})

test('reports that the VM was started again meanwhile', async () => {
  const one = start()
  one.answers.push(prints('abc', 10, restarted), prints('new', 0, ended, 'ffffffff'))
  const running = one.console()
  await one.clock.advance(1000)
  expect(await running).toBe(0)
  expect(one.shown.err).toContain('This is another start of the VM')
})

test('leaves with ^] while it connects again', async () => {
  const one = start()
  one.answers.push(
    prints('', 0, restarted),
    ...Array.from({ length: 20 }, () => () => {
      throw new ApiUnreachable('GET')
    }),
  )
  const running = one.console()
  await one.clock.advance(3000)
  await one.type('\u001D')
  expect(await running).toBe(0)
})

test.each([
  ['the console', (one: ReturnType<typeof start>) => one.console()],
  ['the log', (one: ReturnType<typeof start>) => one.log({ follow: true })],
])('opens %s ever more rarely while its sessions end at once, and soon after one that lasted', async (_, run) => {
  const one = start()
  const openedMs: number[] = []
  const startedMs = one.clock.monotonic()
  const endsAfter = (lastsMs: number) => (receiver: Receiver) => {
    openedMs.push(one.clock.monotonic() - startedMs)
    receiver.begin({ epoch, offset: 0 })
    return new Promise<Closed>((resolve) => one.clock.after(lastsMs, () => resolve(restarted)))
  }
  one.answers.push(...[0, 0, 0, 0, 0, 0, 20_000, 0, 0].map(endsAfter))
  const running = run(one)
  for (let second = 0; second < 60; second++) await one.clock.advance(1000)
  await running
  expect(openedMs).toEqual([0, 500, 1500, 3500, 7500, 12_500, 17_500, 38_000, 39_000])
})

test.each([
  [
    'a refusal',
    refusal(403, 'Forbidden', 'User "jane" cannot update'),
    {},
    'Error from server (Forbidden): User "jane" cannot update\n',
  ],
  [
    'a VM that does not exist',
    refusal(404, 'NotFound', 'vm "web" not found'),
    {},
    'Error from server (NotFound): vm "web" not found\n',
  ],
  [
    'a cluster whose virtset is older',
    refusal(404, 'NotFound', '404 page not found'),
    {},
    "error: this cluster's virtset is older than kubectl-vm, and has no API group sessions.virtset.io\n",
  ],
  [
    'a config that is off',
    refusal(404, 'NotFound', 'vm "web" not found'),
    { hasConfig: true },
    'error: the VM of virtualmachineconfig "web" does not run; start it: kubectl vm start web\n',
  ],
])('reports %s in one line', async (_, error, given, line) => {
  const one = start(given)
  one.answers.push(() => {
    throw error
  })
  expect(await one.console()).toBe(1)
  expect([one.shown.err, one.isRaw(), one.isReading()]).toEqual([line, false, false])
})

test('prints the log and ends', async () => {
  const one = start()
  one.answers.push(prints('a\r\nb\u001B[2J', 0, ended))
  expect(await one.log({ tail: 7 })).toBe(0)
  expect([one.shown.out, one.paths]).toEqual(['a\r\nb\u001B[2J', [`${subresource}/log?tailBytes=7`]])
})

test('a log whose connection is lost is an error', async () => {
  const one = start()
  one.answers.push(prints('abc', 0, restarted))
  await expect(one.log()).rejects.toThrow('the log is incomplete, because the connection was lost; try again')
  expect(one.shown.out).toBe('abc')
})

test.each([
  ['that is followed may be silent', { follow: true }, undefined],
  ['that is not followed is given up when it is silent', {}, 35_000],
] as const)('a log %s', async (_, flags, silentMs) => {
  const one = start()
  const given: (number | undefined)[] = []
  one.answers.push(async (receiver) => {
    given.push(receiver.silentMs)
    return ended
  })
  const running = one.log(flags)
  await one.clock.advance(2000)
  await running
  expect(given).toEqual([silentMs])
})

test.each([
  ['the console', (one: ReturnType<typeof start>) => one.console()],
  ['the log', (one: ReturnType<typeof start>) => one.log({ follow: true })],
])('shows text of the cluster for %s in one line', async (_, run) => {
  const one = start()
  one.answers.push(prints('', 0, { code: 1011, reason: 'a\n::error::b' }), () => {
    throw refusal(403, 'Forbidden', 'c\n::error::d\u202E')
  })
  const running = run(one)
  await one.clock.advance(2000)
  await running
  expect(one.shown.err.split('\n').filter((line) => line.startsWith('::') || line.includes('\u202E'))).toEqual([])
  expect(one.shown.err).toContain('c; ::error::d\uFFFD\n')
})

test('follows the log over a restart until the VM has ended', async () => {
  const one = start()
  one.answers.push(prints('abc', 0, restarted), prints('def', 3, restarted))
  const running = one.log({ follow: true })
  await one.clock.advance(2000)
  expect(await running).toBe(0)
  expect(one.shown.out).toBe('abcdef')
  expect(one.paths).toEqual([
    `${subresource}/log?follow=true`,
    `${subresource}/log?after=0123abcd.3&follow=true`,
    `${subresource}/log?after=0123abcd.6&follow=true`,
  ])
})
