import { expect, test } from 'vitest'
import { ApiError, ApiUnreachable } from '../../runtime/api-error.ts'
import { fakeClock, settle } from '../../test/fake-clock.ts'
import { storedVm } from '../../test/stored-vm.ts'
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
  const request = (_: 'GET', path: string): Promise<unknown> => {
    asked.push(path)
    const result = results[path]
    if (result instanceof Error) return Promise.reject(result)
    return result === undefined ? new Promise(() => {}) : Promise.resolve(result)
  }
  return { clock, asked, warningsOf: createNetworkWarnings({ request }, clock) }
}

test('warns of the networks of taps in use that do not exist', async () => {
  const { asked, warningsOf } = world({ [pathOf('shop')]: error(404, 'NotFound'), [pathOf('infra')]: {} })
  expect(await warningsOf(vm, 'shop')).toEqual([
    'spec.taps[1].network: there is no NetworkAttachmentDefinition lab in the namespace shop; the VM waits until it exists',
  ])
  expect(asked).toEqual([pathOf('shop'), pathOf('infra')])
})

test('is silent where it may not read them, or the API server does not respond', async () => {
  const { warningsOf } = world({
    [pathOf('shop')]: error(403, 'Forbidden'),
    [pathOf('infra')]: new ApiUnreachable('x'),
  })
  expect(await warningsOf(vm, 'shop')).toEqual([])
})

test('does not wait for long', async () => {
  const { clock, warningsOf } = world({ [pathOf('infra')]: error(404, 'NotFound') })
  const warnings = warningsOf(vm, 'shop')
  await settle()
  await clock.advance(1000)
  expect(await warnings).toHaveLength(1)
})

test('asks nothing about a VM without such networks', () => {
  const { warningsOf } = world({})
  expect(warningsOf({ ...vm, spec: { ...vm.spec, taps: taps.slice(0, 1) } }, 'shop')).toBeUndefined()
})
