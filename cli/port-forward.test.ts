import { mkdtemp, rm, stat } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { duplexPair } from 'node:stream'
import { afterEach, expect, test } from 'vitest'
import { refusal, sessionCluster } from '../test/cli/sessions.ts'
import { runVm } from '../test/cli/world.ts'
import { until } from '../test/until.ts'
import { listenAt } from './listen.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

/** Runs a command that listens; its addresses are in `printed` once it does. */
async function serve(words: readonly string[], given: Parameters<typeof sessionCluster>[0] = { phase: 'Running' }) {
  const { cluster, sessions } = sessionCluster(given)
  const shown = { out: '', err: '' }
  const running = runVm(words, {
    cluster: async () => cluster,
    listen: async (...of) => {
      const listening = await listenAt(...of)
      closing.push(() => listening.close())
      return listening
    },
    out: (text) => void (shown.out += text),
    err: (text) => void (shown.err += text),
  })
  const isOver = { code: undefined as number | undefined }
  void running.then(({ code }) => (isOver.code = code))
  await until(() => shown.out !== '' || isOver.code !== undefined)
  const open = (port = Number(/127\.0\.0\.1:(\d+)/.exec(shown.out)?.[1])) => {
    const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true }).on('error', () => {})
    closing.push(() => socket.destroy())
    const heard = { text: '', hasEnded: false, isLost: false }
    socket.on('data', (chunk: Buffer) => (heard.text += chunk.toString()))
    socket.once('end', () => (heard.hasEnded = true)).once('error', () => (heard.isLost = true))
    return { socket, heard }
  }
  return { shown, sessions, isOver, open, running }
}

test('each connection to a local port is a session with a port of the VM', async () => {
  const { shown, sessions, open } = await serve(['port-forward', 'web', ':80'])
  expect(shown.out).toMatch(/^Forwarding from 127\.0\.0\.1:\d+ to port 80 of web\n$/)
  const [first, second] = [open(), open()]
  await until(() => sessions.length === 2)
  const vm = '/apis/sessions.virtset.io/v1alpha1/namespaces/team/virtualmachines/web'
  expect(sessions.map(({ path }) => path)).toEqual([`${vm}/portforward/80`, `${vm}/portforward/80`])
  first.socket.write('GET /')
  await until(() => sessions.some(({ guest }) => guest.read()?.toString() === 'GET /'))
  for (const { guest } of sessions) guest.write('200')
  await until(() => first.heard.text === '200' && second.heard.text === '200')
  for (const session of sessions) session.close({ code: 1000, reason: 'the connection was closed' })
  await until(() => first.heard.hasEnded && second.heard.hasEnded)
  expect(shown.err).toBe('')
})

test('a connection that was lost is cut, not ended, and reported', async () => {
  const { shown, sessions, open } = await serve(['port-forward', 'web', ':80'])
  const { heard } = open()
  await until(() => sessions.length === 1)
  sessions[0]?.close({ code: 1012, reason: 'service restart; connect again' })
  await until(() => heard.isLost)
  expect([heard.hasEnded, shown.err]).toEqual([false, 'error: a connection was lost: service restart; connect again\n'])
})

test('a client that has sent everything still gets the answer', async () => {
  const { sessions, open } = await serve(['port-forward', 'web', ':80'])
  const { socket, heard } = open()
  socket.end('question')
  await until(() => sessions[0]?.guest.readableLength === 8)
  sessions[0]?.guest.write('answer')
  await until(() => heard.text === 'answer')
  sessions[0]?.close({ code: 1000, reason: '' })
  await until(() => heard.hasEnded)
  expect(heard).toEqual({ text: 'answer', hasEnded: true, isLost: false })
})

test('a port on which the guest does not listen is reported, and the command continues', async () => {
  const message = 'port 80 of the VM does not accept connections'
  const { shown, isOver, open } = await serve(['port-forward', 'web', ':80'], {
    phase: 'Running',
    refuse: () => refusal(409, 'Conflict', message),
  })
  const { heard } = open()
  await until(() => heard.isLost)
  expect([shown.err, isOver.code]).toEqual([`error: ${message}\n`, undefined])
})

test('without permission, the command ends at the first connection', async () => {
  const { shown, running, open } = await serve(['port-forward', 'web', ':80'], {
    phase: 'Running',
    refuse: () => refusal(403, 'Forbidden', 'cannot update'),
  })
  open()
  expect((await running).code).toBe(1)
  expect(shown.err).toBe('Error from server (Forbidden): cannot update\n')
})

test.each<[string, string[], string | undefined, number, string]>([
  ['a VM that does not exist', ['web', '80'], undefined, 1, 'NotFound'],
  ['a VM that does not run', ['web', '80'], 'Scheduled', 1, 'its phase is Scheduled; it must be Running'],
  ['no port', ['web'], 'Running', 2, 'a port is required, for example 8080:80'],
  ['a port that does not exist', ['web', '8080:0'], 'Running', 2, '"0" is not a port from 1 to 65535'],
  ['too many numbers', ['web', '1:2:3'], 'Running', 2, '"1:2:3" is not LOCAL:REMOTE'],
  ['two ports of the streams', ['web', '80', '81', '--stdio'], 'Running', 2, '--stdio requires one port'],
])('%s is refused in one line', async (_, words, phase, code, message) => {
  const { cluster } = sessionCluster(phase === undefined ? {} : { phase })
  const result = await runVm(['port-forward', ...words], { cluster: async () => cluster })
  expect([result.code, result.err.split('\n').length, result.err]).toEqual([code, 2, expect.stringContaining(message)])
})

test.each([
  [{ code: 1000, reason: 'the connection was closed' }, 0, ''],
  [
    { code: 1012, reason: 'service restart; connect again' },
    1,
    'error: the connection to web was lost: service restart; connect again\n',
  ],
])('standard input and output are one connection, which %j ends', async (closed, code, err) => {
  const { cluster, sessions } = sessionCluster({ phase: 'Running' })
  const [ours, theirs] = duplexPair()
  const running = runVm(['port-forward', '--stdio', 'web', '22'], {
    cluster: async () => cluster,
    stdio: async () => theirs,
  })
  ours.write('SSH-2.0')
  await until(() => sessions[0]?.guest.readableLength === 7)
  sessions[0]?.guest.write('SSH-2.0-OpenSSH')
  await until(() => ours.readableLength === 15)
  sessions[0]?.close(closed)
  ours.resume()
  expect(await running).toMatchObject({ code, err })
  // An open input would keep the process alive.
  expect(theirs.destroyed).toBe(true)
})

test('a screen is served on a unix socket that only the user can open', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'vnc-'))
  closing.push(() => rm(directory, { recursive: true }))
  const path = join(directory, 'web.sock')
  const { shown, sessions } = await serve(['vnc', 'web', '--listen', path])
  expect(shown.out).toBe(`The screen of web is at ${path}. Connect a VNC viewer; you can. Press ^C to end.\n`)
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  const viewer: Socket = connect(path)
  closing.push(() => viewer.destroy())
  await until(() => sessions.length === 1)
  expect(sessions[0]?.path).toMatch(/attach\/vnc$/)
})
