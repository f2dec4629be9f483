import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../cluster/command.ts'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installProcesses } from './processes.ts'
import type { Processes, Replica } from './processes.ts'

/** A group on a real API server, with the webhooks and the controller as processes of their own. Pods are made, and never scheduled. */
let api: TestApiServer
let processes: Processes
let controller: Replica

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api)
  await processes.startWebhooks('one')
  controller = await processes.startController('controller')
})
afterAll(async () => {
  await processes?.stop()
  await api?.stop()
})

const kubectl = (rest: string[], input?: string) =>
  run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest], input === undefined ? {} : { input })
const apply = (object: object) => kubectl(['apply', '-f', '-'], JSON.stringify(object))
const words = async (path: string, ...what: string[]) =>
  (await kubectl(['get', ...what, '-o', `jsonpath=${path}`])).split(' ').filter((word) => word !== '')
const vms = () => words('{.items[*].metadata.name}', 'vm', '-l', 'app=web')
const pods = () => words('{.items[*].metadata.name}', 'pods')

const domain = { type: 'qemu', memory: { unit: 'MiB', value: 8 }, os: { type: { os: 'hvm' } } }
const group = (replicas: number, more: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineGroup',
  metadata: { name: 'web', namespace: 'default' },
  spec: {
    replicas,
    selector: { matchLabels: { app: 'web' } },
    template: { metadata: { labels: { app: 'web' } }, spec: { domain } },
    ...more,
  },
})

/** Looks again and again how many there are; the most that was ever seen. */
const reaches = async (count: number): Promise<number> => {
  let most = 0
  let now = -1
  const look = async () => {
    now = (await vms()).length
    most = Math.max(most, now)
    return now === count && (await pods()).length === count
  }
  await until(look, undefined, { deadlineMs: 120_000, describe: () => `${now} VMs, not ${count}` })
  return most
}

/** The number; tiny, and without a node. */
const many = 50

test('fifty, none, fifty again while the controller is killed: never more, no pod left over', async () => {
  await apply(group(many))
  expect(await reaches(many)).toBe(many)
  const [labels] = await words('{.status.selector}', 'vmg', 'web')
  expect(labels).toBe('app=web')
  expect(await kubectl(['get', 'vmg', 'web', '--no-headers'])).toMatch(/^web +50 +50 +0 /)

  await kubectl(['scale', 'vmg/web', '--replicas=0'])
  expect(await reaches(0)).toBeLessThanOrEqual(many)

  await kubectl(['scale', 'vmg/web', `--replicas=${many}`])
  await until(async () => (await vms()).length > 0, undefined, { deadlineMs: 120_000 })
  controller.child.kill('SIGKILL')
  controller = await processes.startController('controller-2')
  expect(await reaches(many)).toBe(many)
})

test('takes in an orphan, and lets go what no longer matches', async () => {
  await kubectl(['scale', 'vmg/web', '--replicas=1'])
  await reaches(1)
  const [first = ''] = await vms()
  await kubectl(['label', 'vm', first, 'app=other', '--overwrite'])
  await until(async () => (await vms()).length === 1, undefined, { deadlineMs: 120_000 })
  expect(await words('{.metadata.ownerReferences[*].kind}', 'vm', first)).toEqual([])
  // Now the other one is made to go, and the orphan comes back: one is enough.
  await kubectl(['scale', 'vmg/web', '--replicas=0'])
  await until(async () => (await vms()).length === 0, undefined, { deadlineMs: 120_000 })
  await kubectl(['label', 'vm', first, 'app=web', '--overwrite'])
  await until(async () => (await vms()).length === 0, undefined, { deadlineMs: 120_000 })
})

test.each(['config', 'group'])('the example of a %s is well', async (name) => {
  const said = await kubectl(['apply', '--dry-run=server', '-f', `manifests/examples/machines/${name}.yaml`])
  expect(said).toContain('created')
})

test.each<[string, object, string]>([
  [
    'a selector that does not match the template',
    { selector: { matchLabels: { app: 'db' } } },
    'spec.template.metadata.labels',
  ],
  ['a selector of everything', { selector: {} }, 'spec.selector'],
  [
    'another selector than is stored',
    {
      selector: { matchLabels: { app: 'web', tier: 'x' } },
      template: { metadata: { labels: { app: 'web', tier: 'x' } }, spec: { domain } },
    },
    'spec.selector',
  ],
  ['fewer than none', { replicas: -1 }, 'spec.replicas'],
  [
    'a template with a mistake',
    { template: { metadata: { labels: { app: 'web' } }, spec: { domain: { ...domain, memery: 1 } } } },
    'spec.template.spec.domain.memery',
  ],
])('refuses %s', async (_, more, field) => {
  await expect(apply(group(0, more))).rejects.toThrow(field)
})

test('says in a condition why no VM can be made, and not ten times a second', async () => {
  const refusing = {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { name: 'few', namespace: 'default' },
    spec: { hard: { 'count/virtualmachines.virtset.io': '0' } },
  }
  await apply(refusing)
  await kubectl([
    'patch',
    'resourcequota',
    'few',
    '--subresource=status',
    '--type=merge',
    '-p',
    JSON.stringify({ status: { hard: refusing.spec.hard, used: { 'count/virtualmachines.virtset.io': '0' } } }),
  ])
  await kubectl(['scale', 'vmg/web', '--replicas=3'])
  const message = () =>
    kubectl(['get', 'vmg', 'web', '-o', 'jsonpath={.status.conditions[?(@.type=="ReplicaFailure")].message}'])
  await until(async () => (await message()).includes('quota'), undefined, { deadlineMs: 120_000 })
  const told = await words('{.items[?(@.reason=="FailedCreate")].count}', 'events')
  expect(told.map(Number).reduce((sum, one) => sum + one, 0)).toBeLessThan(6)
  await kubectl(['delete', 'resourcequota', 'few'])
  await reaches(3)
  await until(async () => (await message()) === '', undefined, { deadlineMs: 120_000 })
})
