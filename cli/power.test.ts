import { describe, expect, test } from 'vitest'
import type { ConfigStatus } from '../api/config.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { noSessions } from '../test/cli/world.ts'
import { type FakeApiServer, startFakeApiServer } from '../test/fake-apiserver.ts'
import { power, progressOf } from './power.ts'
import type { PowerFlags, Verb } from './power.ts'

const vm = (uid: string) => ({ name: 'web', uid })
const restart = { uid: 'old', requestedAt: '2030-01-01T00:00:00Z' }

describe('the progress', () => {
  type Vm = Parameters<typeof progressOf>[3]
  const deletionTimestamp = '2030-01-01T00:00:00Z'
  const stored = (uid: string, phase: 'Running' | 'Failed' = 'Running', metadata: object = {}): Vm => ({
    metadata: { name: 'web', uid, resourceVersion: '1', ...metadata },
    status: { phase },
  })
  const [old, other] = [stored('u', 'Running', { deletionTimestamp }), stored('new')]

  test.each<[string, Verb, ConfigStatus, Vm, string]>([
    ['a start that the controller has not observed', 'start', { phase: 'Stopped' }, undefined, 'in progress'],
    [
      'a start that shows the previous, finished VM',
      'start',
      { phase: 'Failed', instance: vm('old') },
      undefined,
      'in progress',
    ],
    ['a VM that starts', 'start', { phase: 'Starting', instance: vm('u') }, undefined, 'in progress'],
    ['a VM that runs', 'start', { phase: 'Running', instance: vm('u') }, undefined, 'done'],
    ['a VM that failed', 'start', { phase: 'Failed', instance: vm('u') }, undefined, 'failed'],
    ['a VM that stops', 'stop', { phase: 'Stopping', instance: vm('u') }, old, 'in progress'],
    ['a deleted VM', 'stop', { phase: 'Stopped' }, undefined, 'done'],
    ['a VM that the controller has not observed', 'stop', { phase: 'Stopped' }, old, 'in progress'],
    ['a deleted VM that the controller still shows', 'stop', { instance: vm('u') }, undefined, 'done'],
    ['a VM in whose place another was started', 'stop', { phase: 'Starting' }, other, 'done'],
    ['a finished VM, which remains', 'stop', { phase: 'Failed' }, stored('u', 'Failed'), 'done'],
    ['a finished VM that is deleted', 'stop', {}, stored('u', 'Failed', { deletionTimestamp }), 'in progress'],
    ['a cancelled restart', 'stop', { restart: { ...restart, cancelled: true } }, undefined, 'in progress'],
    ['the VM of a cancelled restart', 'stop', {}, stored('new', 'Running', { deletionTimestamp }), 'in progress'],
    ['a restart whose old VM ends', 'restart', { phase: 'Stopping', instance: vm('u'), restart }, old, 'in progress'],
    ['a restart without any VM', 'restart', { phase: 'Stopped', restart }, undefined, 'in progress'],
    ['a restart that is refused', 'restart', { phase: 'Failed', restart }, undefined, 'failed'],
    ['a restart whose new VM starts', 'restart', { phase: 'Starting', instance: vm('new') }, other, 'in progress'],
    ['a restart whose new VM runs', 'restart', { phase: 'Running', instance: vm('new') }, other, 'done'],
    ['a restart that shows an earlier VM', 'restart', { phase: 'Running', instance: vm('older') }, old, 'in progress'],
    ['a restart that shows a former VM', 'restart', { phase: 'Running', instance: vm('older') }, other, 'in progress'],
  ])('%s', (_, verb, status, now, expected) => {
    expect(progressOf(verb, 'u', { status }, now).state).toBe(expected)
  })
})

const api = '/apis/virtset.io/v1alpha1'
const [configs, vms] = [`${api}/virtualmachineconfigs`, `${api}/virtualmachines`]

async function runVm(
  verb: Verb,
  flags: Partial<PowerFlags>,
  answer: { status: number; body: unknown },
  beforeRead = (server: FakeApiServer): void => {
    const status = { phase: 'Running', instance: vm('u') }
    server.put(configs, { metadata: { namespace: 'default', name: 'web' }, spec: {}, status })
  },
) {
  const server = await startFakeApiServer()
  server.fault = ({ method, path }) => {
    if (method === 'POST') return answer
    if (path.endsWith('/virtualmachineconfigs/web')) beforeRead(server)
    return undefined
  }
  const kube = createKubeClient({ access: server.access, userAgent: 'kubectl-vm' })
  const result = { out: '', err: '' }
  const world = {
    out: (text: string) => void (result.out += text),
    err: (text: string) => void (result.err += text),
    now: () => performance.now(),
  }
  const code = await power(verb, 'web', { timeout: 10, ...flags }, { ...noSessions, kube, server: server.url }, world)
  const [first] = server.requests
  await kube.close()
  await server.close()
  return { code, ...result, path: `${first?.path}?${first?.query.toString()}`, body: first?.body }
}

describe('kubectl vm', () => {
  const started = { status: 201, body: { kind: 'VirtualMachine', metadata: { uid: 'u' } } }
  const accepted = { status: 202, body: { kind: 'Status', status: 'Success', details: { uid: 'u' } } }
  const path = '/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/web'

  test('start --wait reports when the VM runs', async () => {
    expect(await runVm('start', { wait: true }, started)).toMatchObject({
      code: 0,
      out: 'virtualmachineconfig.virtset.io/web started\n',
      err: 'web: Running\n',
      path: `${path}/start?`,
    })
  })

  test('stop passes the grace period', async () => {
    expect(await runVm('stop', { gracePeriod: 5 }, accepted)).toMatchObject({
      code: 0,
      body: { gracePeriodSeconds: 5 },
    })
  })

  test('restart --dry-run does not wait', async () => {
    const answer = await runVm('restart', { dryRun: true, wait: true }, accepted)
    expect(answer).toMatchObject({
      code: 0,
      out: 'virtualmachineconfig.virtset.io/web restarting (dry run)\n',
      path: `${path}/restart?dryRun=All`,
    })
  })

  test('stop --wait waits for the VM, of which the status of the config knows nothing yet', async () => {
    let reads = 0
    const { code, err } = await runVm('stop', { wait: true }, accepted, (server) => {
      const metadata = { namespace: 'default', name: 'web' }
      server.put(configs, { metadata, spec: {}, status: { phase: 'Stopped' } })
      if ((reads += 1) > 1) return server.remove(vms, 'default', 'web')
      const deletionTimestamp = '2030-01-01T00:00:00Z'
      server.put(vms, {
        metadata: { ...metadata, uid: 'u', deletionTimestamp, finalizers: ['virtset.io/vm'] },
        spec: {},
        status: { phase: 'Running' },
      })
    })
    expect([code, err]).toEqual([0, 'web: Stopping\nweb: Stopped\n'])
  })

  test.each<[Verb, unknown]>([
    ['start', null],
    ['start', {}],
    ['start', []],
    ['start', { kind: 'VirtualMachine', metadata: {} }],
    ['start', { kind: 'Pod', metadata: { uid: 'u' } }],
    ['stop', {}],
    ['stop', { kind: 'Status', status: 'Success', details: {} }],
    ['stop', { kind: 'Status', status: 'Failure', details: { uid: 'u' } }],
    ['restart', { kind: 'VirtualMachine', metadata: { uid: 'u' } }],
  ])('%s does not take the response %j for success', async (verb, body) => {
    const message = `POST ${path}/${verb}: the response is not one of virtset`
    await expect(runVm(verb, { wait: true }, { status: 200, body })).rejects.toThrow(message)
  })

  test('start --wait shows a message in one line', async () => {
    const message = 'no node\n::error::forged'
    const { err } = await runVm('start', { wait: true }, started, (server) => {
      const conditions = [{ type: 'Ready', status: 'False', reason: 'Failed', message }]
      const status = { phase: 'Failed', instance: vm('u'), conditions }
      server.put(configs, { metadata: { namespace: 'default', name: 'web' }, spec: {}, status })
    })
    expect(err).toBe('web: Failed (no node; ::error::forged)\n')
  })

  test('prints each cause of a refusal in one line, with or without a field', async () => {
    const causes = [{ message: 'a\n::error::b' }, { field: 'spec\n::error::c', message: 'd\re' }]
    const body = { kind: 'Status', code: 422, reason: 'Invalid', message: 'no:\n* f\n* g', details: { causes } }
    expect(await runVm('start', {}, { status: 422, body })).toMatchObject({
      code: 1,
      err: 'Error from server (Invalid): no: f; g\n* a; ::error::b\n* spec; ::error::c: d\uFFFDe\n',
    })
  })

  test('prints every cause of a refusal', async () => {
    const causes = [
      { field: 'spec.domain.memory', message: 'Required value' },
      { field: 'spec.domain.os', message: 'Required value' },
    ]
    const body = {
      kind: 'Status',
      code: 422,
      reason: 'Invalid',
      message: 'VirtualMachine "web" is invalid',
      details: { causes },
    }
    expect(await runVm('start', {}, { status: 422, body })).toMatchObject({
      code: 1,
      out: '',
      err: 'Error from server (Invalid): VirtualMachine "web" is invalid\n* spec.domain.memory: Required value\n* spec.domain.os: Required value\n',
    })
  })
})
