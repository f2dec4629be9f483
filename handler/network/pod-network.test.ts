import { fstatSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openPodNetwork, podOf } from './pod-network.ts'

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'
const other = '1f0e0d0c-0b0a-4908-8706-050403020100'

test.each<[string, string | undefined]>([
  [`0::/kubepods/burstable/pod${uid}/1234`, uid],
  [`0::/kubepods/pod${uid}`, uid],
  [`0::/../../kubepods/besteffort/pod${uid}/1234`, uid],
  [`0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${uid.replaceAll('-', '_')}.slice/x.scope`, uid],
  [`9:name=systemd:/\n8:pids:/node1/kubepods/pod${uid}/1234\n`, uid],
  // Named by a container below its own.
  [`0::/kubepods/burstable/pod${other}/1234/pod${uid}`, other],
  [`0::/kubepods/burstable/pod${uid}x/1234`, undefined],
  [`0::/kubepods/burstable/1234`, undefined],
  ['', undefined],
])('the control group %s belongs to the pod %s', (cgroup, expected) => {
  expect(podOf(cgroup)).toBe(expected)
})

let proc: string
beforeEach(() => {
  proc = mkdtempSync(join(tmpdir(), 'proc-'))
  running(1, '/', 'node')
})
afterEach(() => rmSync(proc, { recursive: true }))

/** A process, and a file in the place of its network namespace. */
function running(pid: number, cgroup: string, network: string, startedAt = 100): void {
  mkdirSync(join(proc, `${pid}/ns`), { recursive: true })
  writeFileSync(join(proc, `${pid}/cgroup`), `0::${cgroup}\n`)
  writeFileSync(join(proc, `${pid}/stat`), `${pid} (a ) 7 b) S 1 1 ${'0 '.repeat(16)}${startedAt} 0 0\n`)
  writeFileSync(join(proc, network), '')
  symlinkSync(join(proc, network), join(proc, `${pid}/ns/net`))
}

/** The namespace that is found. */
function found(): string | undefined {
  const network = openPodNetwork(proc, uid)
  if (network === undefined) return undefined
  const { ino } = fstatSync(network.fd)
  network.close()
  return ['node', 'pod', 'private', 'other'].find(
    (name) => statSync(join(proc, name), { throwIfNoEntry: false })?.ino === ino,
  )
}

test('the network of a pod is that of its oldest process', () => {
  running(30, `/kubepods/pod${uid}/a`, 'private', 300)
  running(40, `/kubepods/pod${uid}/b`, 'pod', 200)
  running(20, `/kubepods/pod${other}/c`, 'other', 100)
  expect(found()).toBe('pod')
})

test('a pod without processes has none', () => {
  running(20, `/kubepods/pod${other}/c`, 'other')
  mkdirSync(join(proc, '50'))
  expect(found()).toBeUndefined()
})

test('the network of the node is refused', () => {
  mkdirSync(join(proc, '40/ns'), { recursive: true })
  writeFileSync(join(proc, '40/cgroup'), `0::/kubepods/pod${uid}/b`)
  writeFileSync(join(proc, '40/stat'), '')
  symlinkSync(join(proc, 'node'), join(proc, '40/ns/net'))
  expect(found).toThrow(`pod ${uid} has the network of the node`)
})
