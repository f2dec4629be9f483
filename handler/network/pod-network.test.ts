import { fstatSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openNodeNetworks, openPodNetwork } from './pod-network.ts'

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'
const other = '1f0e0d0c-0b0a-4908-8706-050403020100'

/** The agent, which the runtime has started. */
const agent = 12

let proc: string
let listed: number[]
let nodeNetworks: ReadonlySet<number>
beforeEach(() => {
  proc = mkdtempSync(join(tmpdir(), 'proc-'))
  running({ pid: 1, parent: 0, network: 'node' })
  running({ pid: 11, parent: 1, network: 'runtime' })
  running({ pid: agent, parent: 11, network: 'agent' })
  nodeNetworks = openNodeNetworks(proc, agent)
  listed = []
})
afterEach(() => rmSync(proc, { recursive: true }))

interface Process {
  readonly pid: number
  readonly parent?: number
  readonly cgroup?: string
  readonly network: string
  readonly startedAt?: number
}

/** A process, and a file in the place of its network namespace. */
function running({ pid, parent = 1, cgroup = '/', network, startedAt = 100 }: Process): void {
  mkdirSync(join(proc, `${pid}/ns`), { recursive: true })
  writeFileSync(join(proc, `${pid}/cgroup`), `0::${cgroup}\n`)
  writeFileSync(join(proc, `${pid}/stat`), `${pid} (a ) 7 b) S ${parent} 1 ${'0 '.repeat(16)}${startedAt} 0 0\n`)
  writeFileSync(join(proc, network), '')
  symlinkSync(join(proc, network), join(proc, `${pid}/ns/net`))
}

/** A process that the group of the pod `uid` lists. */
function inPod(pid: number, network: string, startedAt = 100, pod = uid): void {
  running({ pid, cgroup: `/kubepods/pod${pod}/a`, network, startedAt })
  listed.push(pid)
}

/** The namespace that is found. */
function found(): string | undefined {
  const network = openPodNetwork({ proc, processesOf: (podUID) => (podUID === uid ? listed : []), nodeNetworks }, uid)
  if (network === undefined) return undefined
  const { ino } = fstatSync(network.fd)
  network.close()
  return ['pod', 'private', 'other'].find((name) => statSync(join(proc, name), { throwIfNoEntry: false })?.ino === ino)
}

test('the network of a pod is that of its oldest process', () => {
  inPod(30, 'private', 300)
  inPod(40, 'pod', 200)
  listed.push(50)
  expect(found()).toBe('pod')
})

test('a pod without processes has none', () => {
  expect(found()).toBeUndefined()
  listed.push(50)
  expect(found()).toBeUndefined()
})

test('a process of another pod that got the number of one that has ended is not taken for it', () => {
  inPod(20, 'other', 100, other)
  expect(found()).toBeUndefined()
})

test.each(['node', 'runtime', 'agent'])('the network of the node is refused: that of the %s', (network) => {
  inPod(40, network)
  expect(found).toThrow(`pod ${uid} has the network of the node`)
})

test('a monitor of the container runtime in the group of a pod is not its network', () => {
  inPod(20, 'node', 50)
  inPod(30, 'pod', 100)
  inPod(40, 'private', 200)
  expect(found()).toBe('pod')
})

test('the network of the first process may be protected, but not that of the runtime', () => {
  rmSync(join(proc, '1/ns/net'))
  expect(openNodeNetworks(proc, agent).size).toBe(2)
  rmSync(join(proc, '11/ns/net'))
  expect(() => openNodeNetworks(proc, agent)).toThrow('ENOENT')
})

test('an agent that does not see the processes of its node is refused', () => {
  expect(() => openNodeNetworks(proc, 1)).toThrow('it needs hostPID')
})
