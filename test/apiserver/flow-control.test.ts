import { once } from 'node:events'
import { connect } from 'node:http2'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../cluster/command.ts'
import { startApiServer, type TestApiServer } from './apiserver.ts'

let api: TestApiServer
const kubectl = (rest: readonly string[], input?: string) =>
  run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest], input === undefined ? {} : { input })

beforeAll(async () => {
  api = await startApiServer()
  await kubectl(['create', 'namespace', 'virtset-system'])
  const files = ['handler/rbac', 'controller/rbac', 'webhooks/rbac', 'base/flow-control']
  await kubectl(['apply', ...files.flatMap((name) => ['-f', `manifests/${name}.yaml`])])
})
afterAll(() => api?.stop())

const tokenOf = async (component: string) =>
  (await kubectl(['create', 'token', '-n', 'virtset-system', `virtset-${component}`])).trim()

/** The requests that a level executes or queues, from the API server's own description. */
async function requestsIn(level: string): Promise<number> {
  const table = await kubectl(['get', '--raw', '/debug/api_priority_and_fairness/dump_priority_levels'])
  const [head = '', ...lines] = table.split('\n').map((line) => line.split(',').map((cell) => cell.trim()))
  const row = lines.find(([name]) => name === level) ?? []
  return ['WaitingRequests', 'ExecutingRequests'].reduce((sum, title) => sum + Number(row[head.indexOf(title)] ?? 0), 0)
}

test('a stolen token of a handler does not keep controller and webhooks from the API server', async () => {
  const [stolen, ...others] = await Promise.all(['handler', 'controller', 'webhooks'].map(tokenOf))
  const sessions = Array.from({ length: 7 }, () => connect(api.server, { ca: api.certificateAuthority }))
  try {
    for (const session of sessions) session.on('error', () => {})
    await Promise.all(sessions.map((session) => once(session, 'remoteSettings')))
    for (const session of sessions) {
      // The body of each never arrives, so it holds its seat until the API server gives up.
      for (let count = 0; count < 100; count++) {
        const stream = session.request({
          ':method': 'POST',
          ':path': '/apis/authentication.k8s.io/v1/tokenreviews',
          authorization: `Bearer ${stolen}`,
          'content-type': 'application/json',
          'content-length': '1000',
        })
        stream.on('error', () => {})
        stream.write('{"api')
      }
    }
    for (let held = 0; held < 300; held = await requestsIn('virtset-handlers')) await sleep(100)
    for (const token of others) {
      const asked = ['get', '--raw', '/apis/virtset.io/v1alpha1', '--token', token]
      // It is refused after the queue, as a group that is not served here: not by 429.
      await expect(kubectl(['--request-timeout=30s', ...asked])).rejects.toThrow(
        'could not find the requested resource',
      )
    }
  } finally {
    for (const session of sessions) session.destroy()
  }
})
