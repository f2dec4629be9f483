import { mkdtempSync, rmSync } from 'node:fs'
import { request as httpRequest, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createLanes } from '../../runtime/lanes.ts'
import { createLogger } from '../../runtime/log.ts'
import { networkSocketName, type NetworkRequest, type NetworkResult } from '../../runtime/network-api.ts'
import { until } from '../../test/until.ts'
import { createNetworkClient, NetworkFailure } from '../network-client.ts'
import { PluginFailed, type PluginRun } from './plugin.ts'
import { networkServer } from './server.ts'

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'
const request: NetworkRequest = {
  vm: { namespace: 'default', name: 'web', uid },
  pod: { uid, ips: ['10.0.0.5'] },
  plugin: 'example',
  interface: { dev: 'tap0', index: 0, mac: '52:54:00:00:00:01', queues: 1 },
}
const result = { ips: ['10.0.0.5'], dhcp: { ip: '10.0.0.5', prefix: 24 } }

let directory: string
let server: Server
/** What was done, in order. */
let done: string[]
let isPresent: boolean
let plugin: (run: PluginRun) => Promise<NetworkResult | undefined>
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'network-'))
  done = []
  isPresent = true
  plugin = async () => result
  const limits = { all: 2, perNamespace: 2 }
  const lanes = { builtIn: createLanes(limits), others: createLanes(limits) }
  server = networkServer({
    openNetwork: (podUID) => {
      if (!isPresent) return undefined
      done.push(`open ${podUID === uid}`)
      return { fd: 7, close: () => done.push('close') }
    },
    run: (run) => {
      done.push(`${run.command} ${run.network}`)
      return plugin(run)
    },
    lanesOf: (name) => (name === 'routed' ? lanes.builtIn : lanes.others),
    log: createLogger({ process: 'network', level: 'silent' }),
  })
  await new Promise<void>((resolve) => server.listen(join(directory, networkSocketName), resolve))
})
afterEach(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  rmSync(directory, { recursive: true })
})

const client = () => createNetworkClient(directory)
const failureOf = async (promise: Promise<unknown>): Promise<string> => {
  const error: unknown = await promise.catch((thrown: unknown) => thrown)
  return error instanceof NetworkFailure ? `${error.reason}: ${error.message}` : String(error)
}

test('a plugin runs in the network of the pod, which is closed afterwards', async () => {
  expect(await client().add(request)).toEqual(result)
  await client().check(request)
  await client().del(request)
  expect(done).toEqual(['add', 'check', 'del'].flatMap((command) => ['open true', `${command} 7`, 'close']))
})

test('what a plugin that failed has begun is undone, and the client gets its complaint', async () => {
  plugin = ({ command }) =>
    command === 'add'
      ? Promise.reject(new PluginFailed('network plugin example: no route'))
      : Promise.resolve(undefined)
  expect(await failureOf(client().add(request))).toBe('NetworkPluginFailed: network plugin example: no route')
  expect(done).toEqual(['open true', 'add 7', 'del 7', 'close'])
})

test('a plugin that cannot undo what it has begun fails with its first complaint', async () => {
  plugin = ({ command }) => Promise.reject(new PluginFailed(`${command} failed`))
  expect(await failureOf(client().add(request))).toBe('NetworkPluginFailed: add failed')
})

test('without a process of the pod, only DEL runs its plugin', async () => {
  isPresent = false
  const absent = `NetworkPluginFailed: no process of pod ${uid} runs on this node`
  expect(await failureOf(client().add(request))).toBe(absent)
  expect(await failureOf(client().check(request))).toBe(absent)
  await client().del(request)
  expect(done).toEqual(['del undefined'])
})

test('plugins for one pod run one after the other, also after a failure', async () => {
  const started = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  plugin = async ({ command }) => {
    started.resolve()
    await gate.promise
    done.push(`${command} ended`)
    if (command === 'check') throw new PluginFailed('no')
    return result
  }
  const first = failureOf(client().check(request))
  await started.promise
  const second = client().add(request)
  gate.resolve()
  await Promise.all([first, second])
  expect(done).toEqual(['open true', 'check 7', 'check ended', 'close', 'open true', 'add 7', 'add ended', 'close'])
})

test('what waits for others does not run once its client has gone', async () => {
  const gate = Promise.withResolvers<void>()
  plugin = async () => {
    await gate.promise
    return result
  }
  const other = (digit: string) => ({ ...request, pod: { ...request.pod, uid: uid.replace('0', digit) } })
  const busy = [client().add(other('1')), client().add(other('2'))]
  await until(() => done.length === 4)
  const socketPath = join(directory, networkSocketName)
  const left = httpRequest({ socketPath, path: '/add', method: 'POST' }).on('error', () => {})
  left.end(JSON.stringify(request))
  await new Promise((resolve) => setTimeout(resolve, 100))
  left.destroy()
  await new Promise((resolve) => setTimeout(resolve, 100))
  gate.resolve()
  await Promise.all(busy)
  await client().check(other('1'))
  expect(done.filter((what) => what === 'add 7')).toHaveLength(2)
})

/** The status of a request that the client would not send. */
function send(path: string, body: string, method = 'POST'): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const socketPath = join(directory, networkSocketName)
    httpRequest({ socketPath, path, method }, (response) => resolve(response.resume().statusCode))
      .on('error', reject)
      .end(body)
  })
}

test.each<[string, string, number]>([
  ['/add', 'x', 400],
  ['/add', '{}', 400],
  ['/add', JSON.stringify({ ...request, plugin: '../sh' }), 400],
  ['/add', JSON.stringify({ ...request, pod: { uid: '1', ips: [] } }), 400],
  ['/add', JSON.stringify({ ...request, interface: { ...request.interface, dev: 'eth0' } }), 400],
  ['/add', JSON.stringify({ ...request, interface: { ...request.interface, mac: '$(reboot)' } }), 400],
  ['/add', JSON.stringify({ ...request, interface: { ...request.interface, podInterface: 'eth0' } }), 400],
  ['/add', JSON.stringify({ ...request, more: 'x'.repeat(70_000) }), 400],
  ['/other', JSON.stringify(request), 404],
])('the request %s %.40s is refused with %d', async (path, body, status) => {
  expect(await send(path, body)).toBe(status)
  expect(done).toEqual([])
})

test('plugins of operators that hang do not delay those of virtset', async () => {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  plugin = ({ request: { plugin: name } }) => (name === 'bridge' ? promise : Promise.resolve(result))
  const hanging = [1, 2, 3].map((index) =>
    client().add({ ...request, plugin: 'bridge', pod: { ...request.pod, uid: `${uid.slice(0, -1)}${index}` } }),
  )
  expect(await client().add({ ...request, plugin: 'routed' })).toEqual(result)
  resolve(undefined)
  await Promise.all(hanging)
})

test('a pod that has the network of the node is an error of the agent', async () => {
  server.close()
  const broken = networkServer({
    openNetwork: () => {
      throw new Error('pod x has the network of the node')
    },
    run: async () => undefined,
    lanesOf: () => createLanes({ all: 1, perNamespace: 1 }),
    log: createLogger({ process: 'network', level: 'silent' }),
  })
  const other = mkdtempSync(join(tmpdir(), 'network-'))
  await new Promise<void>((resolve) => broken.listen(join(other, networkSocketName), resolve))
  expect(await failureOf(createNetworkClient(other).add(request))).toBe(
    'NetworkAgentUnavailable: pod x has the network of the node',
  )
  broken.close()
  rmSync(other, { recursive: true })
})

test('without an agent, the failure names what to do', async () => {
  expect(await failureOf(createNetworkClient('/nonexistent').add(request))).toBe(
    "NetworkAgentUnavailable: the network agent of the node does not respond; install the overlay network-plugins, or remove the VM's taps (ENOENT)",
  )
})
