import { request, type IncomingMessage } from 'node:http'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { sessionCluster } from '../test/cli/sessions.ts'
import { runVm } from '../test/cli/world.ts'
import { until } from '../test/until.ts'

/** Runs `vnc web` until the test ends it. */
function start(phase: string | undefined) {
  const { cluster } = sessionCluster(phase === undefined ? {} : { phase })
  const { promise: interrupted, resolve: interrupt } = Promise.withResolvers<void>()
  let out = ''
  const running = runVm(['vnc', 'web'], {
    cluster: async () => cluster,
    page: async () => new Map([['index.html', Buffer.from('<!doctype html>')]]),
    interrupted: () => interrupted,
    out: (text) => void (out += text),
  })
  return { running, interrupt, out: () => out }
}

test('the link opens the page at the VM, until the command is ended', async () => {
  const { running, interrupt, out } = start('Running')
  await until(() => out() !== '')
  const link = new URL(out().trim())
  expect(link.hash).toBe('#/vm/team/web')
  const [response] = (await once(request(link).end(), 'response')) as [IncomingMessage]
  // Without a fragment of its own, the address of the page has that of the link.
  expect([response.statusCode, response.resume().headers.location]).toEqual([303, link.pathname.replace(/login$/, '')])
  interrupt()
  expect((await running).code).toBe(0)
})

test.each([
  ['Scheduled', 'error: the VM "web" has no guest to connect to: its phase is Scheduled; it must be Running\n'],
  [undefined, 'Error from server (NotFound): VirtualMachine "web" not found\n'],
])('a VM in the phase %s is refused in one line', async (phase, err) => {
  expect(await start(phase).running).toMatchObject({ code: 1, err })
})
