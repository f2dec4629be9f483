import { execFile, spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../cluster/command.ts'
import { guestGreeting } from '../../cluster/guest.ts'
import { openPage, takePicture } from '../page.ts'
import { openCluster, type TestCluster, type VirtualMachine } from './cluster.ts'
import { linuxVolume } from './example-images.ts'
import { deaf, guest, presets } from './vms.ts'

let cluster: TestCluster
/** For keys, pictures and sockets. */
let directory: string
beforeAll(async () => {
  cluster = await openCluster()
  directory = await mkdtemp(join(tmpdir(), 'console-'))
  await run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', join(directory, 'key')])
  await cluster.kubectl('apply', '-f', resolve(import.meta.dirname, '../../manifests/examples/preset-guest-agent.yaml'))
  await cluster.apply(...presets, screen, guest('talks', { terminationGracePeriodSeconds: 0 }), await linux())
  await cluster.untilVm('talks', 'runs', ({ status }) => status?.phase === 'Running')
})
afterAll(async () => {
  await cluster.close()
  await rm(directory, { recursive: true })
})

const screen = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachinePreset',
  metadata: { name: 'screen' },
  spec: { selector: {}, domain: { devices: { graphics: [{ type: 'vnc' }] } } },
}

const isOpen = '[ -e /tmp/open ] || { echo closed >&2; exit 7; }'

/** The example's Linux, which serves ssh at the address of its pod. */
async function linux(): Promise<object> {
  const root = await linuxVolume(cluster)
  const publicKey = (await readFile(join(directory, 'key.pub'), 'utf8')).trim()
  const userData = `#cloud-config\nssh_authorized_keys: ["${publicKey}"]\n`
  const disk = { type: 'volume', device: 'disk', source: { volume: 'root' }, target: { dev: 'vda', bus: 'virtio' } }
  const seed = { type: 'volume', device: 'cdrom', source: { volume: 'seed' }, target: { dev: 'sda', bus: 'sata' } }
  const httpGet = { port: 'http' }
  return deaf(
    'linux',
    {
      terminationGracePeriodSeconds: 0,
      volumes: [root, { name: 'seed', cloudInit: { userData } }],
      ports: [
        { name: 'ssh', port: 22 },
        { name: 'http', port: 80 },
      ],
      // The kubelet drops events of a pod beyond 25 and one in five minutes, and tests below wait for two of them.
      startupProbe: { httpGet, periodSeconds: 30, timeoutSeconds: 10, failureThreshold: 200 },
      readinessProbe: { exec: { command: ['/bin/sh', '-c', isOpen] }, periodSeconds: 5, timeoutSeconds: 30 },
      livenessProbe: { httpGet, periodSeconds: 1, timeoutSeconds: 30 },
    },
    {
      memory: { unit: 'MiB', value: 256 },
      devices: { disks: [disk, seed], interfaces: [{}], serials: [{ type: 'pty' }] },
    },
    { labels: { 'guest-agent': 'yes' } },
  )
}

const main = resolve(import.meta.dirname, '../../cli/main.ts')
const vm = async (name: string, ...rest: string[]) =>
  (await promisify(execFile)(process.execPath, [main, name, '-n', cluster.namespace, ...rest])).stdout

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
    (await vm('log', 'talks')).includes(guestGreeting) ? true : undefined,
  )
  expect(await vm('log', 'talks', '--tail', '0')).toBe('')

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

test('a screen is photographed, shown to several viewers, and takes keys', async () => {
  const picture = join(directory, 'talks.png')
  await vm('screenshot', 'talks', '-o', picture)
  const bytes = await readFile(picture)
  // The size is at this place of every PNG.
  expect([bytes.readUInt32BE(16), bytes.readUInt32BE(20)]).toEqual([720, 400])
  expect(await vm('send-key', 'talks', 'ctrl-alt-f2', 'enter', '--text', 'Hi')).toBe('')

  const socket = join(directory, 'talks.sock')
  const server = spawn(process.execPath, [main, 'vnc', 'talks', '-n', cluster.namespace, '--listen', socket])
  await once(server.stdout, 'data')
  const viewers = [connect(socket), connect(socket)]
  const greetings = await Promise.all(viewers.map(async (viewer) => String((await once(viewer, 'data'))[0])))
  expect(greetings).toEqual(['RFB 003.008\n', 'RFB 003.008\n'])
  for (const viewer of viewers) viewer.destroy()
  server.kill()
})

// A guest that accepts a connection and then hangs is tried again, or ends the test with a message.
const sshOptions = [
  'StrictHostKeyChecking=no',
  'UserKnownHostsFile=/dev/null',
  'LogLevel=ERROR',
  'BatchMode=yes',
  'ConnectTimeout=60',
  'ServerAliveInterval=20',
]
const sshFlags = () => [...sshOptions.flatMap((option) => ['-o', option]), '-i', join(directory, 'key')]
const ssh = (...command: string[]) => vm('ssh', 'root@linux', ...sshFlags(), '--', ...command)

test('ssh and scp reach a guest through the API server', async () => {
  const flags = sshFlags()
  const hostname = await cluster
    .until('the guest has booted', () => ssh('hostname').catch(() => undefined), 400_000)
    .catch(async (cause: unknown) => {
      throw new Error(`the guest's console shows\n${await vm('log', 'linux')}`, { cause })
    })
  expect(hostname.trim()).not.toBe('')
  // Its console is on port 0, which the preset adds after the port in the manifest. It serves ssh before it prompts.
  await cluster.until('the log has a prompt', async () => (await vm('log', 'linux')).includes('login:') || undefined)
  const sent = join(directory, 'sent')
  await writeFile(sent, randomBytes(300_000))
  await vm('scp', ...flags, sent, 'root@linux:/tmp/sent')
  await vm('scp', ...flags, 'root@linux:/tmp/sent', `${sent}.back`)
  expect(await readFile(`${sent}.back`)).toEqual(await readFile(sent))
})

test('the page types on the console and on the screen of a guest', async () => {
  const kubeconfig = process.env['KUBECONFIG'] ?? ''
  const { page, errors, foreign, close } = await openPage('--kubeconfig', kubeconfig, '-n', cluster.namespace)
  try {
    await page.getByRole('link', { name: 'linux' }).click()
    await page.locator('#console .xterm-rows').getByText('login:').first().waitFor()
    await page.locator('#screen-state').getByText('connected', { exact: true }).waitFor()
    // The guest prints what its second terminal shows, as text. On a busy machine, a connection can fail.
    const screen = () => ssh('cat', '/dev/vcs1').catch(String)
    await cluster.until('the screen asks who logs in', async () =>
      (await screen()).includes('login:') ? true : undefined,
    )
    await page.locator('#screen canvas').click()
    await page.keyboard.type('typed on the screen')
    await cluster.until('the guest shows what was typed', async () =>
      (await screen()).includes('login: typed on the screen') ? true : undefined,
    )
    await page.locator('#console').click()
    await page.keyboard.type('typed on the console')
    await page.locator('#console .xterm-rows').getByText('login: typed on the console').first().waitFor()
    expect([errors, foreign]).toEqual([[], []])
    await takePicture(page, 'guest')
  } finally {
    await close()
  }
})

const conditionOf = (type: string, { status }: VirtualMachine) => status?.conditions?.find((one) => one.type === type)
const agentOf = (vm: VirtualMachine) => conditionOf('AgentConnected', vm)
const readyOf = (vm: VirtualMachine) => conditionOf('Ready', vm)

/** Waits until the Service sends requests to the guest, or none. */
const serviceHasGuest = (isWanted: boolean) =>
  cluster.until(`the endpoint is ${isWanted ? '' : 'not '}ready`, async () => {
    const path = 'jsonpath={.items[*].endpoints[*].conditions.ready}'
    const ready = await cluster.kubectl('get', 'endpointslices', '-l', 'kubernetes.io/service-name=linux', '-o', path)
    return (ready === 'true') === isWanted ? true : undefined
  })

/** The kubelet reports it in an event of the pod. */
const probeFails = (message: string) =>
  cluster.until(message, async () => {
    const events = await cluster.kubectl('get', 'events', '-o', 'jsonpath={.items[*].message}')
    return events.includes(message) ? true : undefined
  })

test('a guest has the address of its pod, uses the cluster’s DNS, and serves clients of a Service', async () => {
  await cluster.apply({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'linux' },
    spec: { selector: { 'virtset.io/vm-name': 'linux' }, ports: [{ name: 'ssh', port: 2222, targetPort: 'ssh' }] },
  })
  await serviceHasGuest(false)
  expect(readyOf((await cluster.vm('linux'))!)?.reason).toBe('StartupProbePending')
  // A daemon that keeps the output of its session open keeps the session open, too.
  await ssh('echo served >/tmp/index.html; httpd -p 80 -h /tmp >/dev/null 2>&1 </dev/null')
  await probeFails('Readiness probe failed: the command exited with status 7: closed')
  await ssh('touch /tmp/open')
  const { status } = await cluster.untilVm('linux', 'is ready', (vm) => readyOf(vm)?.status === 'True')
  await serviceHasGuest(true)
  expect(await ssh('ip', '-4', 'addr')).toContain(` ${status?.podIP}/`)
  expect(await ssh('nslookup', `linux.${cluster.namespace}.svc.cluster.local`)).toContain('Name:')
  // The API server connects to an endpoint of the Service, and reports that an SSH server does not speak HTTP.
  const proxy = `/api/v1/namespaces/${cluster.namespace}/services/http:linux:ssh/proxy/`
  await cluster.until('the Service reaches the guest', async () => {
    const failure = await cluster.kubectl('get', '--raw', proxy).then(String, String)
    return failure.includes('SSH-2.0-dropbear') ? true : undefined
  })
})

test('the agent in a guest reports its host name, system and addresses, until it stops', async () => {
  const connected = await cluster.untilVm('linux', 'has an agent', (vm) => agentOf(vm)?.status === 'True')
  const { guest: reported } = (
    await cluster.untilVm('linux', 'is described', (vm) => vm.status?.guest?.os !== undefined)
  ).status!
  expect(reported).toMatchObject({
    hostname: (await ssh('hostname')).trim(),
    os: { kernel: (await ssh('uname', '-r')).trim() },
  })
  const described = await cluster.untilVm(
    'linux',
    'has addresses',
    ({ status }) => status?.interfaces?.[0]?.guestIPs !== undefined,
  )
  expect(described.status?.interfaces).toMatchObject([
    {
      ips: [connected.status?.podIP],
      guestIPs: [connected.status?.podIP],
      infoSource: ['domain', 'guest-agent'],
    },
  ])
  // Its inittab starts it again once it finds the port of the channel.
  await ssh('rm /dev/virtio-ports/org.qemu.guest_agent.0; killall qemu-ga')
  const stopped = await cluster.untilVm('linux', 'has no agent', (vm) => agentOf(vm)?.status === 'False')
  expect(agentOf(stopped)?.reason).toBe('AgentDisconnected')
  expect(stopped.status?.guest).toBeUndefined()
  await cluster.untilVm('linux', 'is not ready', (vm) => readyOf(vm)?.reason === 'ProbeFailing')
  await probeFails('Readiness probe failed: the QEMU guest agent does not answer')
})

test('a guest that no longer serves is ended, and gets no requests of its Service', async () => {
  await ssh('killall httpd')
  const failed = await cluster.untilVm('linux', 'has failed', ({ status }) => status?.phase === 'Failed')
  expect(failed.status?.reason).toBe('LivenessProbeFailed')
  await serviceHasGuest(false)
})
