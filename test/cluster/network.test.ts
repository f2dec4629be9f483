import { chmodSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { attempt, run } from '../../cluster/command.ts'
import { guestGreeting } from '../../cluster/guest.ts'
import { readSettings } from '../../cluster/settings.ts'
import { openCluster, processesOfPod, type TestCluster, type VirtualMachine } from './cluster.ts'
import { linuxVolume } from './example-images.ts'
import { useMultus } from './multus.ts'
import { deaf, guest, presets } from './vms.ts'

let cluster: TestCluster
let endMultus: (() => Promise<void>) | undefined
beforeAll(async () => {
  cluster = await openCluster()
  await cluster.kubectl('label', 'namespace', cluster.namespace, 'pod-security.kubernetes.io/enforce=restricted')
  const settings = readSettings(resolve(import.meta.dirname, '../..'), process.env)
  endMultus = await useMultus(cluster, settings)
  const root = await linuxVolume(cluster)
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web' },
    spec: { selector: { app: 'server' }, ports: [{ port: 8080, targetPort: 'http' }] },
  }
  await cluster.apply(...presets, routed, service, lab, linux('server', root), linux('client', root))
})
afterAll(async () => {
  if (plugin !== undefined) rmSync(plugin, { force: true })
  await cluster.kubectl('delete', 'clustervirtualmachinepreset', cluster.namespace, '--ignore-not-found')
  await cluster.close()
  await endMultus?.()
  await attempt(['ip', 'link', 'delete', bridge])
})

/** The executable of a plugin on the node. */
let plugin: string | undefined

/** As an operator makes the routed tap the default of a namespace. */
const routed = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachinePreset',
  metadata: { name: 'routed' },
  spec: { selector: {}, taps: [{ dev: 'tap0', plugin: 'routed' }] },
}

/** All nodes are on this host, and so one bridge connects their pods. */
const bridge = 'virtset-lab'
const lab = {
  apiVersion: 'k8s.cni.cncf.io/v1',
  kind: 'NetworkAttachmentDefinition',
  metadata: { name: 'lab' },
  spec: { config: JSON.stringify({ cniVersion: '1.0.0', name: 'lab', type: 'bridge', bridge, ipam: {} }) },
}

/** The addresses of the guests there. */
const inLab = { server: '198.18.0.1', client: '198.18.0.2' }

/** Some hundred packets. */
const largeBytes = 500_000

/** Programs that the guest's web server runs, by name. */
const programs: { readonly [name: string]: string } = {
  who: 'echo "$REMOTE_ADDR"',
  address: 'ip -4 -o address show dev eth0; ip link show dev eth0; cat /etc/resolv.conf',
  get: 'wget -q -T 20 -O - "http://$QUERY_STRING/cgi-bin/who"',
  large: `head -c ${largeBytes} /dev/zero | tr '\\0' x`,
  sum: 'wget -q -T 60 -O - "http://$QUERY_STRING/cgi-bin/large" | wc -c',
  ping: 'ping -c 1 -W 20 "$QUERY_STRING" >/dev/null && echo "$QUERY_STRING answers"',
  look: 'nslookup "$QUERY_STRING" >/dev/null 2>&1 && echo found',
  spoof: [
    'ip address add 10.244.200.200/32 dev eth0',
    'ip route add "$QUERY_STRING" dev eth0 src 10.244.200.200',
    'wget -q -T 5 -O - "http://$QUERY_STRING/cgi-bin/who" 2>/dev/null || echo refused',
    'ip route del "$QUERY_STRING"; ip address del 10.244.200.200/32 dev eth0',
  ].join('\n'),
}

function linux(name: keyof typeof inLab, root: object): object {
  const files = Object.entries(programs).map(([program, script]) => {
    const header = String.raw`printf 'Content-Type: text/plain\r\n\r\n'`
    const lines = ['#!/bin/sh', header, ...script.split('\n')].map((line) => `    ${line}\n`)
    return `- path: /www/cgi-bin/${program}\n  permissions: "0755"\n  content: |\n${lines.join('')}`
  })
  const userData = `#cloud-config\nwrite_files:\n${files.join('')}runcmd:\n- httpd -p 0.0.0.0:80 -h /www\n`
  const networkData = `version: 2\nethernets:\n  eth1:\n    addresses:\n    - ${inLab[name]}/24\n`
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name, labels: { app: name } },
    spec: {
      domain: {
        type: 'qemu',
        memory: { unit: 'MiB', value: 192 },
        os: { type: { os: 'hvm' } },
        devices: {
          interfaces: [{}, { target: { dev: 'tap1' } }],
          disks: [
            { type: 'volume', source: { volume: 'root' }, target: { dev: 'vda', bus: 'virtio' } },
            { type: 'volume', device: 'cdrom', source: { volume: 'seed' }, target: { dev: 'sda', bus: 'sata' } },
          ],
        },
      },
      volumes: [root, { name: 'seed', cloudInit: { userData, networkData } }],
      ports: [{ name: 'http', port: 80 }],
      taps: [{ dev: 'tap1', plugin: 'redirect', network: 'lab' }],
      terminationGracePeriodSeconds: 0,
    },
  }
}

/** What an HTTP server in a guest responds to this host, which is the node. */
async function ask(address: string, path: string): Promise<string> {
  const response = await fetch(`http://${address}/cgi-bin/${path}`, { signal: AbortSignal.timeout(60_000) })
  return (await response.text()).trim()
}

const addressOf = ({ status }: VirtualMachine) => status?.podIP ?? 'no address'

async function untilServes(name: string): Promise<VirtualMachine> {
  const isReachable = ({ status }: VirtualMachine) => status?.phase === 'Running' && status.podIP !== undefined
  const vm = await cluster.untilVm(name, 'runs and has an address', isReachable, 600_000)
  const isServed = () => ask(addressOf(vm), 'who').catch(() => undefined)
  await cluster.until(`the guest ${name} serves at ${addressOf(vm)}`, isServed, 600_000)
  return vm
}

/** The number of a process of the VM's pod, in whose network commands run. */
const processOf = ({ status }: VirtualMachine): string =>
  String(processesOfPod(status?.podUID ?? 'no pod', (command) => command.includes('launcher/main.ts'))[0])

function withNetwork(vm: object): object {
  const copy: { spec: { domain: { devices: { interfaces?: object[] } } } } = JSON.parse(JSON.stringify(vm))
  copy.spec.domain.devices.interfaces = [{}]
  return copy
}

// While the large guests boot, others start, or wait for what they need.
test.concurrent('a guest has the address of its pod, by DHCP, and is reached there and by a Service', async () => {
  const [server, client] = [await untilServes('server'), await untilServes('client')]
  expect(server.spec.domain['devices']).toMatchObject({
    interfaces: [
      { type: 'ethernet', target: { dev: 'tap0', managed: false }, model: { type: 'virtio' } },
      { type: 'ethernet', target: { dev: 'tap1', managed: false }, model: { type: 'virtio' } },
    ],
  })
  const [from, to] = [addressOf(client), addressOf(server)]
  expect(server.status?.interfaces).toMatchObject([{ podInterface: 'eth0', ips: [to] }, { podInterface: 'net1' }])
  const configured = await ask(to, 'address')
  expect(configured).toContain(`inet ${to}/24`)
  expect(configured).toContain('mtu 1500')
  expect(configured).toContain(`search ${cluster.namespace}.svc.cluster.local`)

  // The server sees its client, and pings end in the guest.
  expect(await ask(from, `get?${to}`)).toBe(from)
  expect(await ask(from, `ping?${to}`)).toBe(`${to} answers`)
  expect(await ask(from, `get?web.${cluster.namespace}.svc.cluster.local:8080`)).toBe(from)
  expect(await ask(to, 'look?kubernetes.default.svc.cluster.local')).toBe('found')

  // The pod itself has the same address, and its own connections.
  const inPod = ['nsenter', '-t', processOf(client), '-n', 'curl', '-sS', '-m', '20']
  expect((await run([...inPod, `http://${to}/cgi-bin/who`])).trim()).toBe(from)
}, 1_200_000)

test.concurrent('a network that does not exist, or whose CNI plugin fails, is named in the condition until it is repaired', async () => {
  const taps = [{ dev: 'tap1', plugin: 'redirect', network: 'late' }]
  const devices = { interfaces: [{ target: { dev: 'tap1' } }] }
  await cluster.apply(deaf('late', { taps, terminationGracePeriodSeconds: 0 }, { devices }))
  const untilReason = (text: string) =>
    cluster.untilVm('late', `waits: ${text}`, ({ status }) => {
      const ready = status?.conditions?.find(({ type }) => type === 'Ready')
      const isNamed = ready?.reason === 'FailedCreatePodSandBox' && ready.message.startsWith('network "late": ')
      return isNamed && ready.message.includes(text)
    })
  await untilReason(`the NetworkAttachmentDefinition "late" does not exist in namespace "${cluster.namespace}"`)
  const ipam = { type: 'host-local', subnet: '198.18.7.0/24' }
  const network = (type: string) => ({
    ...lab,
    metadata: { name: 'late' },
    spec: { config: JSON.stringify({ cniVersion: '1.0.0', name: 'late', type, bridge, ipam }) },
  })
  await cluster.apply(network('no-such-plugin'))
  await untilReason('no-such-plugin')
  await cluster.apply(network('bridge'))
  const { status } = await cluster.untilVm('late', 'runs', (vm) => vm.status?.phase === 'Running')
  expect(status?.conditions?.find(({ type }) => type === 'Ready')?.message ?? '').not.toContain('network')
  expect(status?.interfaces?.[0]?.ips).toEqual([expect.stringMatching(/^198\.18\.7\.\d+$/)])
}, 600_000)

test.concurrent('QEMU reaches its iSCSI disk from the address that the guest has', async () => {
  await cluster.apply(withNetwork(guest('disk', { terminationGracePeriodSeconds: 0 })))
  const vm = await cluster.untilVm('disk', 'runs', ({ status }) => status?.phase === 'Running')
  const console = await cluster.console(vm)
  await console.ask('boot', guestGreeting)
  console.close()
}, 600_000)

test.concurrent('a plugin that is missing or fails is named in the condition, and the VM starts once it is repaired', async () => {
  const node = (await cluster.vm('server'))?.status?.nodeName ?? 'node1'
  const plugins = join(cluster.state, 'nodes', node, 'kubelet/plugins/network.virtset.io/bin')
  const file = join(plugins, 'example')
  plugin = file
  mkdirSync(plugins, { recursive: true })
  const install = (script: string) => {
    // A file that is being executed cannot be written.
    const unfinished = join(plugins, '../example')
    writeFileSync(unfinished, `#!/bin/sh\n${script}\n`)
    chmodSync(unfinished, 0o755)
    renameSync(unfinished, file)
  }
  rmSync(file, { force: true })
  // Only a cluster preset can select a plugin that an operator has installed.
  const grant = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'ClusterVirtualMachinePreset',
    metadata: { name: cluster.namespace },
    spec: { selector: { matchLabels: { plugged: cluster.namespace } }, taps: [{ dev: 'tap1', plugin: 'example' }] },
  }
  await cluster.apply(grant)
  const interfaces = [{ type: 'ethernet', target: { dev: 'tap1', managed: false } }]
  const spec = { nodeSelector: { 'kubernetes.io/hostname': node }, terminationGracePeriodSeconds: 0 }
  const labels = { plugged: cluster.namespace }
  await cluster.createWith('"example"', deaf('plugged', spec, { devices: { interfaces } }, { labels }))
  const untilReason = (text: string) =>
    cluster.untilVm('plugged', `waits: ${text}`, ({ status }) => {
      const ready = status?.conditions?.find(({ type }) => type === 'Ready')
      return ready?.reason === 'NetworkPluginFailed' && ready.message.includes(text)
    })
  await untilReason('network plugin example is not installed on this node')
  install('echo "no cable" >&2; exit 1')
  await untilReason('network plugin example: ADD failed (1): no cable')
  install(
    '[ "$VIRTSET_COMMAND" = ADD ] || exit 0; nsenter --net=/proc/self/fd/3 ip tuntap add name tap1 mode tap user 107 group 107 && echo {}',
  )
  await cluster.untilVm('plugged', 'runs', ({ status }) => status?.phase === 'Running')
}, 900_000)

test('two guests reach each other in a network of Multus, and nothing but frames crosses their pods', async () => {
  const [server, client] = [await untilServes('server'), await untilServes('client')]
  expect(await ask(addressOf(client), `get?${inLab.server}`)).toBe(inLab.client)
  expect(server.status?.interfaces?.[1]).toMatchObject({ network: `${cluster.namespace}/lab`, podInterface: 'net1' })
  const addresses = await run(['nsenter', '-t', processOf(server), '-n', 'ip', 'address', 'show', 'dev', 'net1'])
  expect(addresses).toContain(server.status?.interfaces?.[1]?.mac)
  expect(addresses).not.toContain('inet')
}, 1_200_000)

test('guests follow the path between them, on which packets must be smaller', async () => {
  const [server, client] = [await untilServes('server'), await untilServes('client')]
  const [from, to] = [addressOf(client), addressOf(server)]
  // At the end of the client's link that is the node's, the node refuses what is too large, and says so to the sender.
  const [inPod] = JSON.parse(await run(['nsenter', '-t', processOf(client), '-n', 'ip', '-j', 'link', 'show', 'eth0']))
  const links: { ifindex: number; ifname: string }[] = JSON.parse(await run(['ip', '-j', 'link']))
  const link = links.find(({ ifindex }) => ifindex === inPod.link_index)?.ifname ?? 'no link'
  await run(['ip', 'link', 'set', 'dev', link, 'mtu', '1400'])
  expect(await ask(from, `sum?${to}`)).toBe(`${largeBytes}`)
}, 1_200_000)

test('a guest cannot use another address', async () => {
  const [server, client] = [await untilServes('server'), await untilServes('client')]
  expect(await ask(addressOf(client), `spoof?${addressOf(server)}`)).toBe('refused')
  expect(await ask(addressOf(client), `get?${addressOf(server)}`)).toBe(addressOf(client))
}, 1_200_000)

test('guests stay connected while handler and network agent are replaced', async () => {
  const server = await untilServes('server')
  const system = ['-n', 'virtset-system']
  const pods = 'app.kubernetes.io/component in (network,handler)'
  await cluster.kubectl(...system, 'delete', 'pod', '-l', pods, '--timeout=240s')
  for (const name of ['virtset-network', 'virtset-handler'])
    await cluster.kubectl(...system, 'rollout', 'status', `daemonset/${name}`, '--timeout=180s')
  expect(await ask(addressOf(server), 'who')).not.toBe('')
  const again = await cluster.vm('server')
  expect(again?.status).toMatchObject({ phase: 'Running', podUID: server.status?.podUID })
}, 600_000)

test('the network agent has no token and the rights that it states', async () => {
  const pods = await cluster.kubectl('-n', 'virtset-system', 'get', 'pods', '-o', 'json')
  const { items }: { items: { metadata: { name: string; uid: string } }[] } = JSON.parse(pods)
  const agent = items.find(({ metadata }) => metadata.name.startsWith('virtset-network-'))
  const [pid] = processesOfPod(agent?.metadata.uid ?? 'none', (command) => command.includes('handler/network/main.ts'))
  expect(await run(['grep', '-E', '^(CapEff|NoNewPrivs|Seccomp):', `/proc/${pid}/status`])).toBe(
    'CapEff:\t0000000000281000\nNoNewPrivs:\t1\nSeccomp:\t2\n',
  )
  expect(await attempt(['ls', `/proc/${pid}/root/var/run/secrets`])).toBeUndefined()
})
