import { describe, expect, test } from 'vitest'
import type { ConfigStatus } from '../api/config.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { noSessions } from '../test/cli/world.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { power, progressOf } from './power.ts'
import type { PowerFlags, Verb } from './power.ts'

const vm = (uid: string) => ({ name: 'web', uid })
const restart = { uid: 'old', requestedAt: '2030-01-01T00:00:00Z' }

describe('the progress', () => {
  test.each<[string, Verb, ConfigStatus, string]>([
    ['a start that the controller has not observed', 'start', { phase: 'Stopped' }, 'in progress'],
    ['a start that shows the previous, finished VM', 'start', { phase: 'Failed', instance: vm('old') }, 'in progress'],
    ['a VM that starts', 'start', { phase: 'Starting', instance: vm('u') }, 'in progress'],
    ['a VM that runs', 'start', { phase: 'Running', instance: vm('u') }, 'done'],
    ['a VM that failed', 'start', { phase: 'Failed', instance: vm('u') }, 'failed'],
    ['a VM that stops', 'stop', { phase: 'Stopping', instance: vm('u') }, 'in progress'],
    ['a deleted VM', 'stop', { phase: 'Stopped' }, 'done'],
    ['a cancelled restart', 'stop', { phase: 'Stopped', restart: { ...restart, cancelled: true } }, 'in progress'],
    ['a restart whose old VM ends', 'restart', { phase: 'Stopping', instance: vm('u'), restart }, 'in progress'],
    ['a restart without any VM', 'restart', { phase: 'Stopped', restart }, 'in progress'],
    ['a restart that is refused', 'restart', { phase: 'Failed', restart }, 'failed'],
    ['a restart whose new VM starts', 'restart', { phase: 'Starting', instance: vm('new') }, 'in progress'],
    ['a restart whose new VM runs', 'restart', { phase: 'Running', instance: vm('new') }, 'done'],
  ])('%s', (_, verb, status, expected) => {
    expect(progressOf(verb, 'u', { status }).state).toBe(expected)
  })
})

const configs = '/apis/virtset.io/v1alpha1/virtualmachineconfigs'

async function runVm(verb: Verb, flags: Partial<PowerFlags>, answer: { status: number; body: unknown }) {
  const server = await startFakeApiServer()
  const put = (status: ConfigStatus) =>
    server.put(configs, { metadata: { namespace: 'default', name: 'web' }, spec: {}, status })
  put({ phase: 'Starting', instance: vm('u') })
  server.fault = ({ method }) => {
    if (method === 'POST') return answer
    put({ phase: 'Running', instance: vm('u') })
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
  const accepted = { status: 202, body: { kind: 'Status', details: { uid: 'u' } } }
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
