import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, openSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { processesOf } from '../../cluster/cgroup.ts'
import { createNetworkClient, type NetworkClient } from '../../handler/network-client.ts'
import { networkSocketName } from '../../runtime/network-api.ts'
import { confine, limitsOf, memoryGroups, type Confinement } from '../confinement.ts'
import { until } from '../until.ts'

/**
 * The network agent as a process with the limits and capabilities of its manifest, and pods as a kubelet makes them:
 * network namespaces and control groups. Requires root.
 */
const limits = limitsOf('manifests/overlays/network-plugins/daemonset.yaml', 'network')
/** Those of its manifest. */
const capabilities = ['setpriv', '--bounding-set=-all,+net_admin,+sys_admin,+sys_ptrace', '--no-new-privs', '--']
const groupOfAgent = 'kubepods/burstable/pod00000002-0000-4000-8000-000000000000'

const range = (first: number, count: number) => Array.from({ length: count }, (_, index) => first + index)
/** Pods of one tenant: those that wait for a plugin of virtset, the first with many processes, and for a slow one. */
const [starting, slow] = [range(0, 24), range(30, 6)]
const processesOfFirst = 500
/** Those of another tenant. */
const [routed, quick] = [40, 41]

const uidOf = (index: number) => `00000001-0000-4000-8000-${String(index).padStart(12, '0')}`
const networkOf = (index: number) => `virtset-${process.pid}-${index}`
const ipOf = (index: number) => `10.0.0.${index + 1}`
const ip = (index: number, line: string) =>
  execFileSync('ip', ['-n', networkOf(index), ...line.split(' ')], { encoding: 'utf8' })
const podGroup = (index: number) => join(memoryGroups(), `kubepods/pod${uidOf(index)}`)
const containerGroup = (index: number) => join(podGroup(index), 'launcher')

let directory: string
let confinement: Confinement
let agent: ChildProcess
let client: NetworkClient
const pods = [...starting, ...slow, routed, quick]

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'network-agent-'))
  for (const index of pods) startPod(index, index === starting[0] ? processesOfFirst : 1)
  const [socket, plugins] = [join(directory, 'run'), join(directory, 'bin')]
  mkdirSync(plugins)
  for (const [name, script] of [
    ['slow', `echo $$ >>${join(directory, 'slow')}; exec sleep 3600`],
    ['quick', 'echo {}'],
  ] as const) {
    writeFileSync(join(plugins, name), `#!/bin/sh\n${script}\n`)
    chmodSync(join(plugins, name), 0o755)
  }
  confinement = confine(limits, groupOfAgent)
  const log = openSync(join(directory, 'agent.log'), 'a')
  const env = { ...process.env, SOCKET_DIRECTORY: socket, PLUGIN_DIRECTORY: plugins }
  const [program, ...rest] = confinement.wrap([...capabilities, process.execPath, 'handler/network/main.ts'])
  agent = spawn(program, rest, { stdio: ['ignore', log, log], env })
  client = createNetworkClient(socket)
  await until(() => existsSync(join(socket, networkSocketName)), undefined, { describe: logged })
})

afterEach(async () => {
  if (agent.exitCode === null && agent.signalCode === null) {
    const exited = once(agent, 'exit')
    agent.kill('SIGKILL')
    await exited
  }
  for (const pid of slowPlugins()) process.kill(pid, 'SIGKILL')
  for (const index of pods) {
    for (const pid of processesOf(containerGroup(index))) process.kill(pid, 'SIGKILL')
    await until(() => processesOf(containerGroup(index)).length === 0)
    for (const group of [containerGroup(index), podGroup(index)]) rmdirSync(group)
    execFileSync('ip', ['netns', 'delete', networkOf(index)])
  }
  await until(() => slowPlugins().every((pid) => !existsSync(`/proc/${pid}`)))
  confinement.remove()
  await rm(directory, { recursive: true })
})

function startPod(index: number, processes: number): void {
  execFileSync('ip', ['netns', 'add', networkOf(index)])
  ip(index, 'link add eth0 type veth peer name node0')
  ip(index, `address add ${ipOf(index)}/24 dev eth0`)
  mkdirSync(containerGroup(index), { recursive: true })
  const many = `for one in $(seq ${processes}); do sleep 3600 & done; wait`
  const script = `echo $$ >${containerGroup(index)}/cgroup.procs; exec ip netns exec ${networkOf(index)} sh -c '${many}'`
  spawn('sh', ['-c', script], { stdio: 'ignore' })
}

const logged = () => readFileSync(join(directory, 'agent.log'), 'utf8').slice(-2000)

/** The processes of the slow plugin, as many as have been started. */
function slowPlugins(): number[] {
  const file = join(directory, 'slow')
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').map(Number) : []
}

const add = (namespace: string, index: number, plugin: string) =>
  client.add({
    vm: { namespace, name: `vm-${index}`, uid: uidOf(index) },
    pod: { uid: uidOf(index), ips: [ipOf(index)] },
    plugin,
    interface: { dev: 'tap0', index: 0, mac: '52:54:00:00:00:01', queues: 1 },
  })

/** The programs that the agent has started and that have not ended. */
const childrenOfAgent = () =>
  readFileSync(`/proc/${agent.pid}/task/${agent.pid}/children`, 'utf8').split(' ').filter(Boolean).length

test('a tenant with many VMs, many processes and a slow plugin does not delay the taps of another', async () => {
  const slowOnes: string[] = []
  for (const index of slow) void add('tenant', index, 'slow').catch((error: unknown) => slowOnes.push(String(error)))
  await until(() => slowPlugins().length === 2, undefined, { describe: logged })

  let most = 0
  let created = 0
  const all = Promise.all(starting.map((index) => add('tenant', index, 'routed').then(() => created++)))
  const counting = until(
    () => {
      most = Math.max(most, childrenOfAgent())
      return created === starting.length
    },
    () => {},
    { deadlineMs: 300_000, describe: logged },
  )
  await until(() => created > 0, undefined, { describe: logged })
  const others = [await add('other', routed, 'routed'), await add('other', quick, 'quick')]
  // The tenant's own VMs wait for each other.
  expect(created).toBeLessThan(starting.length)
  await Promise.all([all, counting])

  expect(others.map(({ ips }) => ips)).toEqual([[ipOf(routed)], []])
  for (const index of [...starting, routed]) expect(ip(index, 'link show dev tap0 up')).toContain('tap0')
  // Two of the tenant, its two slow ones, and one of the other.
  expect(most).toBeLessThanOrEqual(5)
  expect([slowPlugins().length, slowOnes]).toEqual([2, []])
  expect([agent.exitCode, agent.signalCode, confinement.usage().oomKills]).toEqual([null, null, 0])
})
