import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { guestGreeting } from '../../../cluster/guest.ts'
import { openCluster, podDirectory, type TestCluster, type VirtualMachine } from '../cluster.ts'
import { demoDisk } from '../example-images.ts'
import { deaf, presets } from '../vms.ts'

let cluster: TestCluster
/** The image that is a disk with the demo guest. */
let reference: string
const absent = 'localhost/virtset/absent:1'

beforeAll(async () => {
  cluster = await openCluster()
  await cluster.kubectl('label', 'namespace', cluster.namespace, 'pod-security.kubernetes.io/enforce=restricted')
  await cluster.apply(...presets)
  reference = await demoDisk(cluster)
  await cluster.apply(
    vmFrom('one', { reference, capacity: '16Mi' }),
    vmFrom('two', { reference }),
    vmFrom('absent', { reference: absent, pullPolicy: 'Never' }),
    vmFrom('hollow', { reference, path: 'disk/other.img' }),
  )
})
afterAll(() => cluster.close())

const vmFrom = (name: string, image: object) => {
  const disk = { type: 'volume', device: 'disk', source: { volume: 'root' }, target: { dev: 'vda' } }
  const volumes = [{ name: 'root', image }]
  return deaf(name, { terminationGracePeriodSeconds: 0, volumes }, { devices: { disks: [disk] } })
}

const readyOf = ({ status }: VirtualMachine) => status?.conditions?.find(({ type }) => type === 'Ready')

test('two VMs boot from one image, each with its own changes', async () => {
  for (const name of ['one', 'two']) {
    const vm = await cluster.untilVm(name, 'runs', ({ status }) => status?.phase === 'Running')
    expect(vm.status?.conditions?.find(({ type }) => type === 'SpecDrift')).toBeUndefined()
    const console = await cluster.console(vm)
    await console.ask('boot', guestGreeting)
    console.close()
    const changes = join(podDirectory(cluster.state, vm), 'volumes/kubernetes.io~empty-dir/volume-0')
    expect(await readdir(changes)).toEqual(['disk.qcow2'])
    // Nothing is copied.
    expect((await stat(join(changes, 'disk.qcow2'))).blocks * 512).toBeLessThan(1024 * 1024)
  }
})

test('an image that cannot be pulled is reported with its volume, and the VM waits', async () => {
  const waiting = await cluster.untilVm('absent', 'waits', (vm) => readyOf(vm)?.reason === 'ErrImageNeverPull')
  expect(waiting.status?.phase).toBe('Scheduled')
  expect(readyOf(waiting)?.message).toBe(
    `volume "root": Container image "${absent}" is not present with pull policy of Never`,
  )
})

test('an image without a disk fails the VM, and reports what is missing', async () => {
  const failed = await cluster.untilVm('hollow', 'has failed', ({ status }) => status?.phase === 'Failed')
  expect(failed.status).toMatchObject({
    reason: 'VolumeUnavailable',
    message: expect.stringContaining(`volume "root": the image ${reference}: has no "/disk/other.img"`),
  })
})
