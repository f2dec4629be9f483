import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { BuiltIn, PodPrograms } from '../../handler/network/built-in.ts'
import { pluginDeadlineMs, runPlugin } from '../../handler/network/plugin.ts'
import { systemClock, type Clock } from '../../runtime/clock.ts'
import { fakeClock } from '../fake-clock.ts'
import { until } from '../until.ts'

/** How plugins of virtset run programs in the network of a pod, which is that of this process. Requires root. */
let directory: string
let network: number
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'plugins-'))
  network = openSync('/proc/self/ns/net', 'r')
})
afterEach(() => {
  closeSync(network)
  rmSync(directory, { recursive: true })
})

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'
const request = {
  vm: { namespace: 'default', name: 'web', uid },
  pod: { uid, ips: ['10.0.0.5'] },
  plugin: 'example',
  interface: { dev: 'tap0', index: 0, mac: '52:54:00:00:00:01', queues: 1 },
}

/** As a plugin whose ADD this is. */
function add(work: (pod: PodPrograms) => Promise<string>, clock: Clock = systemClock) {
  const none = () => Promise.resolve()
  const plugin: BuiltIn = { add: async (_, pod) => ({ ips: [await work(pod)] }), check: none, del: none }
  const options = { builtIn: new Map([['example', plugin]]), directory, clock }
  return runPlugin(options, { command: 'add', request, network })
}

const script = (text: string) => async (pod: PodPrograms) => (await pod.run(['sh', '-s'], text)).trim()

test('a program runs in the network, and its output is returned', async () => {
  const inside = script('[ "$(stat -Lc %i /proc/self/ns/net)" = "$(stat -Lc %i /proc/self/fd/3)" ] && echo 10.0.0.1')
  expect(await add(inside)).toEqual({ ips: ['10.0.0.1'] })
})

test.each<[string, string, RegExp]>([
  ['fails', 'echo "no route" >&2; exit 3', /^network plugin example: ADD failed: no route$/],
  ['fails without a complaint', 'exit 3', /ADD failed: sh failed \(3\)$/],
  ['is killed', 'kill -9 $$', /ADD failed: sh failed \(SIGKILL\)$/],
  ['prints without end', 'cat /dev/zero', /ADD failed: printed more than 65536 bytes$/],
  ['hides text', "printf 'a\\033[2Jb' >&2; exit 1", /: a\uFFFD\[2Jb$/],
])('a program that %s', async (_, text, message) => {
  await expect(add(script(text))).rejects.toThrow(message)
})

test('a plugin that hangs is ended with what it started, and starts nothing more', async () => {
  const clock = fakeClock()
  const file = join(directory, 'child')
  const failure = add(async (pod) => {
    await pod.run(['sh', '-s'], `sleep 1000 & echo $! >${file}; wait`).catch(() => {})
    return pod.run(['touch', join(directory, 'more')])
  }, clock).catch(String)
  const pid = await until(() => existsSync(file) && (Number(readFileSync(file, 'utf8')) || undefined))
  await clock.advance(pluginDeadlineMs)
  expect(await failure).toMatch(/ADD did not end within 60 s$/)
  await until(() => !isRunning(pid))
  expect(existsSync(join(directory, 'more'))).toBe(false)
})

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
