import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openCluster, type VirtualMachine, type TestCluster } from '../cluster.ts'
import { deaf } from '../vms.ts'

let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
})
afterAll(() => cluster.close())

const running = (vm: VirtualMachine) => vm.status?.phase === 'Running'

function config(name: string): object {
  const { spec } = deaf(name, { terminationGracePeriodSeconds: 1 }) as { spec: object }
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachineConfig',
    metadata: { name },
    spec: { template: { metadata: { labels: { app: name } }, spec } },
  }
}

const main = resolve(import.meta.dirname, '../../../cli/main.ts')
const vm = (...rest: string[]) => promisify(execFile)(process.execPath, [main, ...rest, '-n', cluster.namespace])

test.concurrent('kubectl vm starts, stops and starts again; the second VM has the changed template and the same hardware addresses', async () => {
  await cluster.apply(config('web'))
  await vm('start', 'web', '--wait')
  const first = await cluster.untilVm('web', 'runs', running)
  expect(first.metadata).toMatchObject({
    ownerReferences: [{ kind: 'VirtualMachineConfig', name: 'web', controller: true }],
  })

  await cluster.kubectl(
    'patch',
    'vmc',
    'web',
    '--type=merge',
    '-p',
    '{"spec":{"template":{"spec":{"domain":{"title":"changed"}}}}}',
  )
  await cluster.kubectl('wait', 'vmc/web', '--for=jsonpath={.status.outdated}=true', '--timeout=240s')
  expect((await cluster.vm('web'))?.spec.domain['title']).toBeUndefined()

  await vm('stop', 'web', '--wait')
  expect(await cluster.isGone('web')).toBe(true)
  const events = await cluster.kubectl(
    'get',
    'events',
    '-o',
    'jsonpath={.items[?(@.involvedObject.kind=="VirtualMachineConfig")].type}',
  )
  expect(events).not.toContain('Warning')
  await vm('start', 'web', '--wait')
  const second = await cluster.untilVm('web', 'runs again', running)
  expect(second.spec.domain).toMatchObject({ title: 'changed', uuid: first.spec.domain['uuid'] })
  expect(second.metadata.uid).not.toBe(first.metadata.uid)
})

test.concurrent('a raw request to the subresource does the same, and a second one is refused', async () => {
  await cluster.apply(config('raw'))
  const path = `/apis/subresources.virtset.io/v1alpha1/namespaces/${cluster.namespace}/virtualmachineconfigs/raw`
  await cluster.kubectl('get', '--raw', `${path}/start`)
  await cluster.untilVm('raw', 'runs', running)
  await expect(cluster.kubectl('get', '--raw', `${path}/start`)).rejects.toThrow('raw')
  await cluster.kubectl('get', '--raw', `${path}/stop`)
  await cluster.untilGone('raw')
})

test('a group maintains its number of guests, and deleting a config ends its guest', async () => {
  const { spec } = deaf('each', { terminationGracePeriodSeconds: 0 }) as { spec: object }
  const labels = { app: 'group' }
  await cluster.apply({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachineGroup',
    metadata: { name: 'group' },
    spec: { replicas: 2, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  })
  await cluster.kubectl('wait', 'vmg/group', '--for=jsonpath={.status.readyReplicas}=2', '--timeout=240s')
  await cluster.kubectl('scale', 'vmg/group', '--replicas=0')
  await cluster.until('no VM of the group', async () =>
    (await cluster.kubectl('get', 'vm', '-l', 'app=group', '-o', 'name')) === '' ? true : undefined,
  )
  // Guests that are removed by scaling down have neither failed nor succeeded.
  expect(await cluster.kubectl('get', 'vmg/group', '-o', 'jsonpath={.status.succeeded} {.status.failed}')).toBe('0 0')
  await cluster.kubectl('delete', 'vmc', 'web', '--wait=false')
  await cluster.untilGone('web')
})
