import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { NetworkCommand, NetworkRequest } from '../../runtime/network-api.ts'
import { systemClock, type Clock } from '../../runtime/clock.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { until } from '../../test/until.ts'
import type { BuiltIn } from './built-in.ts'
import { PluginFailed, pluginDeadlineMs, runPlugin } from './plugin.ts'

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'
const request: NetworkRequest = {
  vm: { namespace: 'default', name: 'web', uid },
  pod: { uid, ips: ['10.0.0.5'] },
  plugin: 'example',
  interface: { dev: 'tap0', index: 0, mac: '52:54:00:00:00:01', queues: 1, podInterface: 'net0' },
}

let directory: string
beforeEach(() => (directory = mkdtempSync(join(tmpdir(), 'plugins-'))))
afterEach(() => rmSync(directory, { recursive: true }))

function run(script: string, command: NetworkCommand = 'add', clock: Clock = systemClock, network?: number) {
  writeFileSync(join(directory, 'example'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return runPlugin({ builtIn: new Map(), directory, clock }, { command, request, network })
}

test('a plugin gets the command, the request and the network, and its result is returned', async () => {
  const file = join(directory, 'network')
  writeFileSync(file, 'the network')
  const network = openSync(file, 'r')
  const heard = join(directory, 'heard')
  const script = `{ echo "$VIRTSET_COMMAND"; cat; echo; cat /proc/self/fd/3; } >${heard}; echo '{"ips":["10.0.0.9"],"dhcp":null}'`
  expect(await run(script, 'add', systemClock, network)).toEqual({ ips: ['10.0.0.9'] })
  closeSync(network)
  const { plugin: _, ...rest } = request
  expect(readFileSync(heard, 'utf8')).toBe(`ADD\n${JSON.stringify({ ...rest, netns: '/proc/self/fd/3' })}\nthe network`)
})

test('a plugin without a network has no descriptor of one', async () => {
  await expect(run('grep -q netns && exit 1; cat <&3', 'del')).rejects.toThrow('DEL failed')
  expect(await run('! grep -q netns', 'del')).toBeUndefined()
})

test.each<[string, string, RegExp]>([
  ['fails', 'echo "no route" >&2; exit 3', /^network plugin example: ADD failed \(3\): no route$/],
  ['is killed', 'kill -9 $$', /ADD failed \(SIGKILL\)$/],
  ['prints no JSON', 'echo hello; echo why >&2', /ADD printed an invalid result: it is not JSON: why$/],
  ['prints something else', `echo '{"ips":"x"}'`, /ADD printed an invalid result: ips is not a list of at most 16$/],
  ['prints without end', 'cat /dev/zero', /ADD printed more than 65536 bytes$/],
  ['hides text', "printf 'a\\033[2Jb' >&2; exit 1", /: a\uFFFD\[2Jb$/],
])('a plugin that %s', async (_, script, message) => {
  await expect(run(script)).rejects.toThrow(message)
})

test('only the end of a long complaint is kept', async () => {
  const failure = run('i=0; while [ $i -lt 9999 ]; do echo line $i; i=$((i+1)); done >&2; exit 1')
  const message = await failure.then(() => 'no failure', String)
  expect(message).toMatch(/line 9998$/)
  expect(message.length).toBeLessThan(2700)
})

test('a plugin that hangs is killed with what it started', async () => {
  const clock = fakeClock()
  const file = join(directory, 'child')
  const running = run(`sleep 1000 & echo $! >${file}; wait`, 'add', clock).catch(String)
  const pid = await until(() => existsSync(file) && (Number(readFileSync(file, 'utf8')) || undefined))
  await clock.advance(pluginDeadlineMs)
  expect(await running).toMatch(/ADD did not end within 60 s$/)
  await until(() => !isRunning(pid))
})

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

test('a process that a plugin left behind does not keep it', async () => {
  expect(await run('(sleep 1000 &) ; echo {}')).toEqual({ ips: [] })
})

test.each(['example', 'constructor'])('the plugin %s is not installed', async (plugin) => {
  const nothing = runPlugin(
    { builtIn: new Map(), directory, clock: systemClock },
    { command: 'add', request: { ...request, plugin }, network: undefined },
  )
  await expect(nothing).rejects.toThrow(`network plugin ${plugin} is not installed on this node`)
})

const nothing = () => Promise.resolve()

/** A plugin of virtset, which runs in this process. test/libvirt/network-plugin.test.ts has what it runs. */
function runBuiltIn(add: BuiltIn['add'], command: NetworkCommand, clock: Clock, network?: number) {
  const builtIn = new Map([['example', { add, check: nothing, del: () => Promise.reject(new Error('no network')) }]])
  return runPlugin({ builtIn, directory, clock }, { command, request, network })
}

test('a plugin of virtset gets the request, and its result is returned', async () => {
  const add: BuiltIn['add'] = async ({ pod: { ips } }) => ({ ips })
  expect(await runBuiltIn(add, 'add', systemClock, 3)).toEqual({ ips: ['10.0.0.5'] })
  expect(await runBuiltIn(add, 'check', systemClock, 3)).toBeUndefined()
})

test('without the network of the pod, a plugin of virtset has nothing to delete', async () => {
  expect(await runBuiltIn(() => Promise.reject(new Error('no')), 'del', systemClock)).toBeUndefined()
})

test.each<[string, BuiltIn['add'], string]>([
  ['fails', () => Promise.reject(new Error('no route')), 'network plugin example: ADD failed: no route'],
  ['reads no JSON', async () => JSON.parse('x'), 'network plugin example: ADD failed: Unexpected token'],
  ['makes no address', async () => ({ ips: ['x'] }), 'ADD failed: ips has an item that is not an IP address'],
  ['hides text', () => Promise.reject(new Error('a\u001b[2Jb')), 'ADD failed: a\uFFFD[2Jb'],
])('a plugin of virtset that %s', async (_, add, message) => {
  const failure = runBuiltIn(add, 'add', systemClock, 3)
  await expect(failure).rejects.toThrow(PluginFailed)
  await expect(failure).rejects.toThrow(message)
})
