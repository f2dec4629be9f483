import { expect, test } from 'vitest'
import { ApiError, ApiUnreachable } from '../../runtime/api-error.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import { fakeClock, settle } from '../../test/fake-clock.ts'
import { storedVm } from '../../test/stored-vm.ts'
import { createTenantRequests } from '../tenant-requests.ts'
import { createNetworkWarnings } from './network-warnings.ts'

const error = (code: number, reason: string) => new ApiError('GET', { code, reason, message: reason })
const interfaces = ['tap0', 'tap1', 'tap2'].map((dev, index) => ({
  type: 'ethernet' as const,
  target: { dev, managed: false },
  mac: { address: `52:54:00:00:00:0${index}` },
}))
const taps = [
  { dev: 'tap0', plugin: 'routed' },
  { dev: 'tap1', plugin: 'redirect', network: 'lab' },
  { dev: 'tap2', plugin: 'redirect', network: 'infra/lab' },
  { dev: 'tap9', plugin: 'redirect', network: 'unused' },
]
const vm = storedVm({ spec: { domain: { devices: { interfaces } }, taps } })

const pathOf = (namespace: string) =>
  `/apis/k8s.cni.cncf.io/v1/namespaces/${namespace}/network-attachment-definitions/lab`

/** @param results by path; absent: it is never answered */
function world(results: Readonly<Record<string, unknown>>) {
  const clock = fakeClock()
  const asked: string[] = []
  const aborted: string[] = []
  const parsed: boolean[] = []
  const request: KubeClient['request'] = (_method, path, _body, { signal, read } = {}) => {
    asked.push(path)
    parsed.push(read !== false)
    const result = results[path]
    if (result instanceof Error) return Promise.reject(result)
    if (result !== undefined) return Promise.resolve(result)
    return new Promise((_resolve, reject) => {
      signal?.addEventListener('abort', () => {
        aborted.push(path)
        reject(signal.reason)
      })
    })
  }
  const warnings = createNetworkWarnings(createTenantRequests({ request }), clock)
  const warningsOf = (of: VirtualMachine, namespace: string, signal?: AbortSignal) =>
    warnings(of, { kind: 'VirtualMachine', namespace, user: { username: 'jane', groups: [], extra: {} } }, signal)
  return { clock, asked, aborted, parsed, warningsOf }
}

test('warns of the networks of taps in use that do not exist', async () => {
  const { asked, parsed, warningsOf } = world({ [pathOf('shop')]: error(404, 'NotFound'), [pathOf('infra')]: {} })
  expect(await warningsOf(vm, 'shop')).toEqual([
    'spec.taps[1].network: there is no NetworkAttachmentDefinition lab in the namespace shop; the VM waits until it exists',
  ])
  expect(asked).toEqual([pathOf('shop'), pathOf('infra')])
  expect(parsed).toEqual([false, false])
})

test('is silent where it may not read them, or the API server does not respond', async () => {
  const { warningsOf } = world({
    [pathOf('shop')]: error(403, 'Forbidden'),
    [pathOf('infra')]: new ApiUnreachable('x'),
  })
  expect(await warningsOf(vm, 'shop')).toEqual([])
})

test('does not wait for long', async () => {
  const { clock, aborted, warningsOf } = world({ [pathOf('infra')]: error(404, 'NotFound') })
  const warnings = warningsOf(vm, 'shop')
  await settle()
  await clock.advance(1000)
  expect(await warnings).toHaveLength(1)
  expect([aborted, clock.pending()]).toEqual([[pathOf('shop')], 0])
})

test('leaves nothing behind when the request is over', async () => {
  const { aborted, warningsOf } = world({})
  const over = new AbortController()
  const warnings = warningsOf(vm, 'shop', over.signal)
  await settle()
  over.abort()
  expect(await warnings).toEqual([])
  expect(aborted).toEqual([pathOf('shop'), pathOf('infra')])
})

/** A VM whose taps are in these networks. */
const vmIn = (...networks: readonly string[]) => {
  const devs = networks.map((network, index) => ({ dev: `tap${index}`, plugin: 'redirect', network }))
  const used = devs.map(({ dev }, index) => ({
    type: 'ethernet' as const,
    target: { dev, managed: false },
    mac: { address: `52:54:00:00:00:0${index}` },
  }))
  return storedVm({ spec: { domain: { devices: { interfaces: used } }, taps: devs } })
}

test('asks once for each network, and warns of each tap', async () => {
  const { asked, warningsOf } = world({ [pathOf('shop')]: error(404, 'NotFound') })
  expect(await warningsOf(vmIn('lab', 'lab', 'shop/lab'), 'shop')).toHaveLength(3)
  expect(asked).toEqual([pathOf('shop')])
})

test('asks for the first four networks only', async () => {
  const missing = Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((of) => [pathOf(of), error(404, 'NotFound')]))
  const { asked, warningsOf } = world(missing)
  expect(await warningsOf(vmIn('a/lab', 'b/lab', 'c/lab', 'd/lab', 'e/lab'), 'shop')).toHaveLength(4)
  expect(asked).toHaveLength(4)
})

test('asks nothing about a VM without such networks', () => {
  const { warningsOf } = world({})
  expect(warningsOf({ ...vm, spec: { ...vm.spec, taps: taps.slice(0, 1) } }, 'shop')).toBeUndefined()
})
