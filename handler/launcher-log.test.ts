import { expect, test } from 'vitest'
import { InvalidLauncherResponse } from '../runtime/launcher-api.ts'
import { createLogger } from '../runtime/log.ts'
import { placeSockets } from './attachment-sockets.ts'
import { LauncherRefusal, LauncherUnreachable } from './launcher.ts'
import { loggedError } from './launcher-log.ts'

const text = 'x'.repeat(1000)

test.each([
  ['LauncherRefusal', new LauncherRefusal('NotReady', text)],
  ['LauncherUnreachable', new LauncherUnreachable(text)],
  ['InvalidLauncherResponse', new InvalidLauncherResponse(text)],
])('of the text of a %s, 256 characters are logged', (type, error) => {
  const lines: string[] = []
  createLogger({ process: 'test', to: { write: (line) => lines.push(line) } }).info({ err: loggedError(error) })
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ err: { type, message: `${text.slice(0, 255)}…` } })
  expect(lines[0]).not.toContain(text.slice(0, 256))
})

test('an error of the handler is logged whole', () => {
  const error = new Error(text)
  expect(loggedError(error)).toBe(error)
})

test('sockets that cannot be handed to a launcher are logged for its namespace', async () => {
  const logged: unknown[] = []
  const attachmentPods = [{ name: 'data', claimName: 'claim', podName: 'p', podUID: 'p1' }]
  const vm = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm', namespace: 'team', uid: 'u', resourceVersion: '1' },
    spec: { domain: {} },
    status: { attachmentPods },
  } as const
  const pods = { place: () => Promise.reject(new Error('EMFILE')), hasEnded: async () => false }
  const limitedLog = (tenant: string, line: object, message: string, level = 'info') =>
    void logged.push([tenant, level, message, line])
  await placeSockets(pods, { vm, podUID: 'launcher', limitedLog })
  const message = 'could not hand the socket of a pod to the launcher'
  expect(logged).toEqual([['team', 'warn', message, expect.objectContaining({ vm: 'team/vm', podUID: 'p1' })]])
})
