import { afterAll, beforeAll, expect, test } from 'vitest'
import { bombs } from '../presets/bombs.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { runKubectl, type Output } from './kubectl.ts'
import { installProcesses } from './processes.ts'
import type { Processes, Replica } from './processes.ts'

let api: TestApiServer
let processes: Processes
let replica: Replica

const kubectl = (input: string, ...rest: string[]): Promise<Output> => runKubectl(api, input, ...rest)
const apply = (object: object, ...rest: string[]) => kubectl(JSON.stringify(object), 'apply', '-f', '-', ...rest)

const apiVersion = 'virtset.io/v1alpha1'
const vm = (namespace: string, name: string, annotations: object = {}) => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: { namespace, name, annotations },
  spec: {
    domain: {
      type: 'qemu',
      memory: { unit: 'MiB', value: 64 },
      os: { type: { os: 'hvm' } },
      devices: { interfaces: [{ type: 'user' }] },
    },
  },
})
const preset = (name: string, expressions: readonly string[], spec: object = {}) => ({
  apiVersion,
  kind: 'VirtualMachinePreset',
  metadata: { namespace: 'mallory', name },
  spec: {
    selector: {},
    matchConditions: expressions.map((expression, index) => ({ name: `c${index}`, expression })),
    domain: { title: name },
    ...spec,
  },
})

const nestedBinds = bombs[0]?.[1] ?? ''
/** Cheap on an ordinary VM; on one with 60,000 parts in an annotation it is millions of steps. */
const growing = 'object.metadata.annotations.list.split(",").all(a, [1, 2, 3, 4].all(b, a != "b"))'
const large = { list: Array.from({ length: 60_000 }, () => 'a').join() }

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api)
  for (const namespace of ['mallory', 'alice']) await kubectl('', 'create', 'namespace', namespace)
  // Stored before the webhooks run.
  const { code, err } = await apply(preset('old', [nestedBinds]))
  if (code !== 0) throw new Error(err)
  replica = await processes.startWebhooks('webhooks')
})
afterAll(async () => {
  await processes?.stop()
  await api?.stop()
})

/** How long the other tenant waits for a response in the meantime. */
async function besides(attack: Promise<Output>): Promise<{ attacked: Output; other: Output }> {
  const [attacked, other] = await Promise.all([attack, apply(vm('alice', 'honest'), '--dry-run=server')])
  return { attacked, other }
}

const answered = { code: 0, out: 'virtualmachine.virtset.io/honest created (server dry run)\n', err: '' }

test.each(['Apply', 'Audit'])(
  'a preset with a condition of nested binds, in mode %s, is refused at dry-run',
  async (mode) => {
    const { attacked, other } = await besides(apply(preset('bomb', [nestedBinds], { mode }), '--dry-run=server'))
    expect(other).toEqual(answered)
    expect(attacked.code).toBe(1)
    expect(attacked.err).toContain('spec.matchConditions[0].expression')
    expect(attacked.err).toContain('a preset is allowed 100,000 steps')
  },
)

test('one that is already stored is quarantined and costs nothing', async () => {
  const { attacked, other } = await besides(apply(vm('mallory', 'vm'), '--dry-run=server'))
  expect(other).toEqual(answered)
  expect(attacked).toMatchObject({
    code: 0,
    err: 'Warning: preset "mallory/old" is broken and left out; see its status\n',
  })
})

test('conditions that are expensive only for a large VM are skipped for it, and another tenant gets a response', async () => {
  const presets = Array.from({ length: 4 }, (_, index) => preset(`growing-${index}`, [growing]))
  for (const one of presets) expect(await apply(one)).toMatchObject({ code: 0 })
  const { attacked, other } = await besides(apply(vm('mallory', 'large', large), '--dry-run=server', '--server-side'))
  expect(other).toEqual(answered)
  expect(attacked.code).toBe(0)
  expect(attacked.err).toContain(
    'preset "mallory/growing-0" left out: condition "c0" cannot be evaluated: takes more than',
  )
})

test('the process survived within the limits of its manifest', () => {
  expect([replica.child.exitCode, replica.child.signalCode]).toEqual([null, null])
  expect(replica.usage().oomKills).toBe(0)
})
