import { execFile, spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { guestGreeting } from '../../cluster/guest.ts'
import { openCluster, type TestCluster } from './cluster.ts'
import { guest, presets } from './vms.ts'

let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
  await cluster.apply(...presets, guest('talks', { terminationGracePeriodSeconds: 0 }))
  await cluster.untilVm('talks', 'runs', ({ status }) => status?.phase === 'Running')
})
afterAll(() => cluster.close())

const main = resolve(import.meta.dirname, '../../cli/main.ts')
const log = async (...rest: string[]) =>
  (await promisify(execFile)(process.execPath, [main, 'log', 'talks', '-n', cluster.namespace, ...rest])).stdout

/** `kubectl vm console` on a pseudo-terminal, which shows standard error, too. */
function startConsole(name: string) {
  const command = [process.execPath, main, 'console', name, '-n', cluster.namespace].join(' ')
  const child: ChildProcessWithoutNullStreams = spawn('script', ['-qfec', command, '/dev/null'])
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')))
  const ended = once(child, 'close').then(([code]) => code as number)
  return {
    text: () => text,
    type: (keys: string) => void child.stdin.write(keys),
    shows: (what: string, deadlineMs?: number) =>
      cluster
        .until(`the console shows ${what}`, async () => (text.includes(what) ? true : undefined), deadlineMs)
        .catch((error: unknown) => {
          throw new Error(`the console shows ${JSON.stringify(text)}`, { cause: error })
        }),
    ended,
  }
}

/** Replaces the pods of webhooks and handler; the old webhooks serve until the new ones have had time to start. */
const replacePods = async () => {
  const system = (...rest: string[]) => cluster.kubectl('-n', 'virtset-system', ...rest)
  await system('delete', 'pod', '-l', 'app.kubernetes.io/component in (webhooks,handler)', '--timeout=240s')
  await Promise.all(
    ['deployment/virtset-webhooks', 'daemonset/virtset-handler'].map((name) =>
      system('rollout', 'status', name, '--timeout=240s'),
    ),
  )
}

test('a console shows the past, reaches the guest, and loses no output while webhooks and handler are replaced', async () => {
  await cluster.until('the log has the greeting', async () =>
    (await log()).includes(guestGreeting) ? true : undefined,
  )
  expect(await log('--tail', '0')).toBe('')

  const console = startConsole('talks')
  await console.shows('Press ^] to leave')
  await console.shows(guestGreeting)
  console.type('typed by hand')
  await console.shows('typed by hand')

  // The guest echoes what is typed on its console by another client, which no restart disconnects.
  const machine = await cluster.vm('talks')
  const other = await cluster.console(machine!)
  let [count, isReplacing] = [0, true]
  const replacing = replacePods().finally(() => (isReplacing = false))
  const typing = async () => {
    while (isReplacing) {
      other.write(` ${count++}`)
      await new Promise((wake) => setTimeout(wake, 200))
    }
  }
  await Promise.all([replacing, typing()])
  await console.shows('Connected again')
  other.write(' end')
  await console.shows(' end')
  const messages = /\r?\n?(The connection was lost[^\n]*|Connected again\.)\r?\n/g
  const expected = `${Array.from({ length: count }, (_, index) => ` ${index}`).join('')} end`
  expect(console.text().replaceAll(messages, '')).toContain(expected)
  other.close()

  console.type('\u001D')
  await console.shows('Left the console of talks')
  expect(await console.ended).toBe(0)
})
