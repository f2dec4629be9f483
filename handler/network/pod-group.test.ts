import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { findPodGroups, podOf, processesOf } from './pod-group.ts'

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'
const other = '1f0e0d0c-0b0a-4908-8706-050403020100'
const agent = '2f0e0d0c-0b0a-4908-8706-050403020100'
const inSlice = (pod: string) => pod.replaceAll('-', '_')

test.each<[string, string | undefined]>([
  [`0::/kubepods/burstable/pod${uid}/1234`, uid],
  [`0::/kubepods/pod${uid}`, uid],
  [`0::/../../kubepods/besteffort/pod${uid}/1234`, uid],
  [`0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${inSlice(uid)}.slice/x.scope`, uid],
  [`9:name=systemd:/\n8:pids:/node1/kubepods/pod${uid}/1234\n`, uid],
  // Named by a container below its own.
  [`0::/kubepods/burstable/pod${other}/1234/pod${uid}`, other],
  [`0::/kubepods/burstable/pod${uid}x/1234`, undefined],
  [`0::/kubepods/burstable/1234`, undefined],
  ['', undefined],
])('the control group %s belongs to the pod %s', (cgroup, expected) => {
  expect(podOf(cgroup)).toBe(expected)
})

let mount: string
beforeEach(() => (mount = mkdtempSync(join(tmpdir(), 'cgroup-'))))
afterEach(() => rmSync(mount, { recursive: true }))

function group(path: string, pids: readonly number[] = []): void {
  mkdirSync(join(mount, path), { recursive: true })
  writeFileSync(join(mount, path, 'cgroup.procs'), pids.map((pid) => `${pid}\n`).join(''))
}

/** Those of the pod `uid`, for an agent in this group. */
const found = (ofAgent: string) => processesOf(findPodGroups(ofAgent, mount), uid)

const burstable = 'kubepods.slice/kubepods-burstable.slice'
test.each<[string, string, readonly string[]]>([
  [
    'cgroupfs, version 2',
    `0::/kubepods/burstable/pod${agent}/a\n`,
    [`kubepods/pod${uid}`, `kubepods/burstable/pod${uid}`, `kubepods/besteffort/pod${uid}`],
  ],
  ['cgroupfs, an agent without a limit', `0::/kubepods/besteffort/pod${agent}/a\n`, [`kubepods/burstable/pod${uid}`]],
  ['cgroupfs, an agent with equal limits', `0::/kubepods/pod${agent}/a\n`, [`kubepods/burstable/pod${uid}`]],
  [
    'cgroupfs, version 1 and a root of its own',
    `9:name=systemd:/\n8:cpu,cpuacct:/virtset/node1/kubepods/burstable/pod${agent}/a\n0::/\n`,
    [`cpu,cpuacct/virtset/node1/kubepods/pod${uid}`],
  ],
  [
    'systemd, version 2',
    `0::/${burstable}/kubepods-burstable-pod${inSlice(agent)}.slice/cri-containerd-a.scope\n`,
    [
      `kubepods.slice/kubepods-pod${inSlice(uid)}.slice`,
      `${burstable}/kubepods-burstable-pod${inSlice(uid)}.slice`,
      `kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod${inSlice(uid)}.slice`,
    ],
  ],
  [
    'systemd, an agent with equal limits',
    `0::/kubepods.slice/kubepods-pod${inSlice(agent)}.slice/crio-a.scope/container\n`,
    [`${burstable}/kubepods-burstable-pod${inSlice(uid)}.slice`],
  ],
  [
    'systemd, version 1 and a root of its own',
    `3:name=systemd:/a.slice/a-kubepods.slice/a-kubepods-burstable.slice/a-kubepods-burstable-pod${inSlice(agent)}.slice/x\n`,
    [`systemd/a.slice/a-kubepods.slice/a-kubepods-pod${inSlice(uid)}.slice`],
  ],
  ['both versions', `0::/kubepods/pod${agent}/a\n`, [`unified/kubepods/pod${uid}`]],
])('the processes of a pod are found: %s', (_, ofAgent, paths) => {
  if (paths[0]?.startsWith('unified') === true) group('unified')
  expect(found(ofAgent)).toEqual([])
  for (const path of paths) {
    group(path)
    group(`${path}/sandbox`, [41])
    group(`${path}/launcher`)
    group(`${path}/launcher/container`, [42, 43])
    expect(found(ofAgent)).toEqual([41, 42, 43])
    rmSync(join(mount, path), { recursive: true })
  }
})

const ofAgent = `0::/kubepods/burstable/pod${agent}/a\n`
const root = `kubepods/burstable/pod${uid}`

test('groups that a container creates are not those of other pods', () => {
  group(`kubepods/burstable/pod${other}/a/kubepods/pod${uid}`, [7])
  group(`user.slice/kubepods/pod${uid}`, [8])
  expect(found(ofAgent)).toEqual([])
})

test('a container with many processes and groups does not hide the others of its pod, nor does each cost time', () => {
  group(root)
  group(
    `${root}/a`,
    Array.from({ length: 10_000 }, (_, index) => 1000 + index),
  )
  for (let index = 0; index < 200; index++) group(`${root}/a/kubepods/${index}`, [100 + index])
  group(`${root}/b`, [1, 2])
  const pids = found(ofAgent)
  expect(pids).toEqual(expect.arrayContaining([1, 2, 1000]))
  expect(pids.length).toBeLessThan(200)
})

test('an agent outside of pods is refused', () => {
  expect(() => findPodGroups('0::/system.slice/a.service\n', mount)).toThrow(
    'the control group of the network agent is not that of a pod: 0::/system.slice/a.service',
  )
})
