import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, copyFile, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import type { VirtualMachine, VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { eventually } from '../until.ts'
import { startLauncher } from './launcher.ts'
import { linuxDisk } from './linux-disk.ts'
import { linuxVm } from './linux-vm.ts'
import { runPlugin } from './network-plugin.ts'
import { uid as launcherUid } from './rootfs.ts'
import { vmUid as uid } from './vm.ts'

/** A network namespace like that of a pod, with an address of each family, and that of its node. Requires root. */
const [pod, node] = [`virtset-${process.pid}`, `virtset-${process.pid}-node`]
const ip = (network: string, line: string) =>
  execFileSync('ip', ['-n', network, ...line.split(' ')], { encoding: 'utf8' })
const inNetwork = (network: string, ...command: readonly string[]) => ['netns', 'exec', network, ...command]

const [podIP, nodeIP] = ['fd00::5', 'fd00::1']
const mac = '52:54:00:00:00:01'
/** A boot of 20 s, and many times that on a busy machine. */
const bootMs = 600_000

beforeEach(() => {
  for (const network of [pod, node]) execFileSync('ip', ['netns', 'add', network])
  ip(pod, `link add eth0 type veth peer name node0 netns ${node}`)
  ip(node, `address add ${nodeIP}/64 dev node0 nodad`)
  ip(node, 'address add 10.0.0.1/24 dev node0')
  ip(pod, `address add ${podIP}/64 dev eth0 nodad`)
  ip(pod, 'address add 10.0.0.5/24 dev eth0')
  for (const [network, device] of [
    [node, 'node0'],
    [pod, 'eth0'],
    [pod, 'lo'],
  ] as const)
    ip(network, `link set ${device} up`)
  ip(pod, 'route add default via 10.0.0.1')
  ip(pod, `-6 route add default via ${nodeIP}`)
  // As container runtimes do.
  execFileSync('ip', inNetwork(pod, 'sysctl', '-qw', 'net.ipv4.ip_unprivileged_port_start=0'))
})
afterEach(() => {
  for (const network of [pod, node]) execFileSync('ip', ['netns', 'delete', network])
})

/**
 * Runs in the guest: configures what a DHCPv6 server gives, says what it has, and how a server on the node sees it. Its
 * own server says hello.
 */
const script = `#!/bin/sh
exec >/dev/console 2>&1
mkdir -p /tmp/www && echo hello >/tmp/www/index.html && httpd -p 80 -h /tmp/www
cat >/tmp/bound <<'END'
#!/bin/sh
[ "$1" != bound ] || ip address add "$ipv6/128" dev "$interface"
END
chmod 755 /tmp/bound
udhcpc6 -q -n -t 30 -T 1 -i eth0 -s /tmp/bound >/dev/null
for second in $(seq 60); do seen=$(wget -q -T 5 -O - 'http://[${nodeIP}]/' 2>/dev/null) && break; sleep 1; done
echo "router: $(ip -6 route show default | grep -o 'via [^ ]*' | head -n 1)"
echo "address: $(ip -6 -o address show dev eth0 scope global | grep -o '${podIP}/128')"
echo "seen: $seen"
`

const vm = (spec: Partial<VirtualMachineSpec>): VirtualMachine =>
  linuxVm(
    script,
    { devices: { interfaces: [{ mac: { address: mac } }] } },
    { ...spec, ports: [{ name: 'http', port: 80 }] },
  )

/** Tells each HTTP client on the node its address. */
async function serve(): Promise<void> {
  const source = `require('http').createServer((request, response) => response.end(request.socket.remoteAddress))
    .listen(80, '${nodeIP}', () => console.log('ready'))`
  const child = spawn('ip', inNetwork(node, process.execPath, '-e', source), { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill())
  await once(child.stdout, 'data')
}

/** What a server at the address of the pod responds to the node. */
const fromNode = () => {
  const source = `fetch('http://[${podIP}]/', { signal: AbortSignal.timeout(20_000) })
    .then((response) => response.text()).then((text) => console.log(text), (error) => console.log(String(error.cause)))`
  return execFileSync('ip', inNetwork(node, process.execPath, '-e', source), { encoding: 'utf8' }).trim()
}

/** passt accepts a connection before the guest does, and resets it if the guest, on a busy host, does not answer. */
const responds = () => eventually('the guest responds', async () => fromNode() === 'hello', 240_000)

/** Boots the guest; returns what it says. */
async function boot(machine: VirtualMachine, taps: readonly object[]): Promise<string[]> {
  const launcher = await startLauncher({ network: pod })
  onTestFinished(() => launcher.stop())
  const folder = join(launcher.images, 'root/disk')
  await mkdir(folder, { recursive: true })
  await copyFile(linuxDisk(), join(folder, 'disk.qcow2'))
  for (const name of ['root', 'seed']) {
    await mkdir(join(launcher.volumes, name))
    await chown(join(launcher.volumes, name), launcherUid, launcherUid)
  }
  if (taps.length > 0) await launcher.ask('PUT', '/network', { taps })
  const { phase, message } = await launcher.put(machine)
  expect({ phase, message }).toEqual({ phase: 'Running', message: undefined })
  const console = await launcher.console()
  let text = ''
  console.on('data', (chunk: Buffer) => (text += chunk.toString()))
  onTestFinished(() => void console.destroy())
  const said = () => text.match(/^(router|address|seen): .*(?=\r)/gm) ?? []
  await eventually('the guest says how it is seen', () => (said().length === 3 ? true : undefined), bootMs)
  return said()
}

test(
  'Linux has the IPv6 address of its pod by the plugin routed, and is reached there',
  async () => {
    await serve()
    const { dhcp, dhcp6 } = JSON.parse(
      runPlugin('routed', 'ADD', pod, {
        vm: { namespace: 'default', name: 'testvm', uid },
        pod: { uid, ips: ['10.0.0.5', podIP] },
        interface: { dev: 'tap0', index: 0, mac, queues: 1 },
      }),
    )
    const machine = vm({ taps: [{ dev: 'tap0', plugin: 'routed' }] })
    const said = await boot(machine, [{ dev: 'tap0', mac, dhcp, dhcp6 }])
    expect(said).toEqual(['router: via fe80::5654', `address: ${podIP}/128`, `seen: ${podIP}`])
    await responds()
  },
  bootMs + 300_000,
)

test(
  'Linux has the IPv6 address of its pod by passt, and is reached there',
  async () => {
    await serve()
    const said = await boot(vm({}), [])
    expect(said).toEqual([expect.stringMatching(/^router: via fe80::/), `address: ${podIP}/128`, `seen: ${podIP}`])
    await responds()
  },
  bootMs + 300_000,
)
