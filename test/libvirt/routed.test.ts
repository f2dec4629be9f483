import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'

/** A network namespace like that of a pod, with the address 10.0.0.5. Requires root. */
const name = `virtset-${process.pid}`
const ip = (...words: readonly string[]) => execFileSync('ip', ['-n', name, ...words], { encoding: 'utf8' })

beforeEach(() => {
  execFileSync('ip', ['netns', 'add', name])
  ip('link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'node0')
  ip('address', 'add', '10.0.0.5/24', 'dev', 'eth0')
  for (const device of ['lo', 'eth0', 'node0']) ip('link', 'set', device, 'up')
  ip('route', 'add', 'default', 'via', '10.0.0.1')
})
afterEach(() => execFileSync('ip', ['netns', 'delete', name]))

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'
const request = {
  vm: { namespace: 'default', name: 'web', uid },
  pod: { uid, ips: ['10.0.0.5'] },
  interface: { dev: 'tap0', index: 0, mac: '52:54:00:00:00:01', queues: 1 },
  netns: '/proc/self/fd/3',
}

/** What the plugin prints: its result, or its error. */
function plugin(command: 'ADD' | 'CHECK' | 'DEL'): string {
  const network = openSync(join('/var/run/netns', name), 'r')
  const main = resolve(import.meta.dirname, '../../handler/network/routed/main.ts')
  const { stdout, stderr } = spawnSync(process.execPath, [main], {
    input: JSON.stringify(request),
    encoding: 'utf8',
    env: { ...process.env, VIRTSET_COMMAND: command },
    stdio: ['pipe', 'pipe', 'pipe', network],
  })
  closeSync(network)
  return stdout.trim() || stderr.trim()
}

const added = '{"ips":["10.0.0.5"],"dhcp":{"ip":"10.0.0.5","prefix":24,"mtu":1500,"gateway":"10.0.0.1"}}'

test('CHECK names what is missing, ADD repairs it, and DEL gives the address back to the pod', () => {
  const rules = ip('rule', 'show')
  expect(plugin('CHECK')).toContain('tap0 is not up')
  expect([plugin('ADD'), plugin('CHECK')]).toEqual([added, '{}'])
  for (const [damage, message] of [
    [['rule', 'delete', 'pref', '40'], 'routing rule 40 is missing'],
    [['rule', 'delete', 'pref', '50'], 'routing rule 50 is missing'],
    [['rule', 'delete', 'pref', '100'], 'routing rule 100 is missing'],
    [['rule', 'add', 'pref', '0', 'from', 'all', 'lookup', 'local'], 'routing rule 0 is there again'],
    [['route', 'flush', 'table', '22100'], '10.0.0.5 has no route to tap0'],
    [['link', 'set', 'tap0', 'down'], 'tap0 is not up'],
  ] as const) {
    ip(...damage)
    expect(plugin('CHECK')).toBe(message)
    expect([plugin('ADD'), plugin('CHECK')]).toEqual([added, '{}'])
  }
  expect(plugin('DEL')).toBe('{}')
  expect(ip('rule', 'show')).toBe(rules)
  expect(ip('link', 'show')).not.toContain('tap0')
})
