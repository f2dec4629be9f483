import { isIP } from 'node:net'

import { afterAll, beforeAll, describe, test } from 'vitest'

import { attempt } from '../../cluster/command.ts'
import { spareNode } from '../../cluster/network.ts'
import { openCluster, processesOfPod, type TestCluster } from './cluster.ts'
import { linuxVolume } from './example-images.ts'
import { enforcePolicies } from './policy-engine.ts'
import { hasSpareNode, openSpare } from './spare.ts'
import { deaf, presets } from './vms.ts'

/** The VMs, which differ only in how they are connected. */
const taps = { passt: [], routed: [{ dev: 'tap0', plugin: 'routed' }], nat: [{ dev: 'tap0', plugin: 'nat' }] } as const
type Name = keyof typeof taps
const names: readonly Name[] = ['passt', 'routed', 'nat']

type Family = 'IPv4' | 'IPv6'
/** `nat` translates IPv4 only. */
const familiesOf = (name: Name): readonly Family[] =>
  spareNode.ipv6 === undefined || name === 'nat' ? ['IPv4'] : ['IPv4', 'IPv6']

describe.runIf(hasSpareNode())('on the spare node, whose NetworkPolicies are enforced,', () => {
  let cluster: TestCluster
  let endEngine: (() => Promise<void>) | undefined

  beforeAll(async () => {
    cluster = await openCluster()
    const { name: node } = openSpare(cluster)
    // Before there are VMs, so that they start under it.
    endEngine = await enforcePolicies(cluster, node)
    const root = await linuxVolume(cluster)
    const image = await handlerImage()
    await cluster.apply(
      ...presets,
      pod('friend', node, image, { access: 'granted' }),
      pod('stranger', node, image, {}),
      ...names.flatMap((name) => [service(name), vm(name, node, root)]),
    )
    await cluster.kubectl('wait', 'pod/friend', 'pod/stranger', '--for=condition=Ready', '--timeout=240s')
    await Promise.all(names.flatMap((name) => familiesOf(name).map((family) => untilServes(name, family))))
  }, 600_000)
  afterAll(async () => {
    await endEngine?.()
    await cluster.close()
  })

  async function handlerImage(): Promise<string> {
    const path = 'jsonpath={.spec.template.spec.containers[0].image}'
    return cluster.kubectl('-n', 'virtset-system', 'get', 'daemonset', 'virtset-handler', '-o', path)
  }

  async function untilServes(name: Name, family: Family): Promise<void> {
    const isReachable = ({ status }: { status?: { phase?: string; podIP?: string } }) =>
      status?.phase === 'Running' && status.podIP !== undefined
    await cluster.untilVm(name, 'runs and has an address', isReachable)
    const address = await addressOf('vm', name, family)
    await cluster.until(`the guest ${name} serves at ${address}`, () => ask(address, 'who').catch(() => undefined))
  }

  const field = async (path: string, ...object: readonly string[]) =>
    cluster.kubectl('get', ...object, '-o', `jsonpath={${path}}`)

  const addresses = { vm: '.status.podIPs[*].ip', pod: '.status.podIPs[*].ip', service: '.spec.clusterIPs[*]' }
  /** As a URL has it. */
  async function addressOf(kind: keyof typeof addresses, name: string, family: Family): Promise<string> {
    const all = (await field(addresses[kind], kind, name)).split(' ')
    const found = all.find((one) => isIP(one) === (family === 'IPv6' ? 6 : 4)) ?? `no-${family}-address`
    return family === 'IPv6' ? `[${found}]` : found
  }

  /** Whether a pod reaches the guest there, which sees the address of the pod. */
  async function reaches(client: string, family: Family, host: string): Promise<boolean> {
    const uid = await field('.metadata.uid', 'pod', client)
    const [pid] = processesOfPod(uid, (command) => command.includes('createServer'))
    const url = `http://${host}/cgi-bin/who`
    const seen = await attempt(['nsenter', `--net=/proc/${pid}/ns/net`, 'curl', '-gsS', '-m', '10', url])
    return seen?.trim() === (await addressOf('pod', client, family))
  }

  /** The pods that reach the guest, at the address of its pod and by its Service. */
  async function clientsOf(name: Name): Promise<object> {
    return byFamily(name, async (family) => {
      const ofPod = await addressOf('vm', name, family)
      const ofService = `${await addressOf('service', name, family)}:8080`
      const found: string[] = []
      for (const client of ['friend', 'stranger']) {
        if (await reaches(client, family, ofPod)) found.push(client)
        if (await reaches(client, family, ofService)) found.push(`${client} by Service`)
      }
      return found
    })
  }

  /** What the guest reaches. This host asks it, because engines accept what the node itself sends. */
  async function reachedFrom(name: Name): Promise<object> {
    return byFamily(name, async (family) => {
      const guest = await addressOf('vm', name, family)
      const fetched = async (other: string) => ask(guest, `get?${await addressOf('pod', other, family)}:8080`)
      return {
        friend: await fetched('friend'),
        stranger: await fetched('stranger'),
        dns: await ask(guest, 'look?kubernetes.default.svc.cluster.local'),
      }
    })
  }

  const remove = (...policies: readonly string[]) => cluster.kubectl('delete', 'networkpolicy', ...policies)

  const ofFriend = ['friend', 'friend by Service']
  const ofBoth = [...ofFriend, 'stranger', 'stranger by Service']
  const labelled = { podSelector: { matchLabels: { access: 'granted' } } }
  /** The engine follows policies a moment later. */
  const patience = { timeout: 240_000, interval: 200 }

  // Each has policies of its own. Only the `expect` of a test itself polls while others run.
  describe.each(names)('by the policies of the guest of %s,', { concurrent: true }, (name) => {
    const oneByOne = { concurrent: false, timeout: 1_200_000 }
    const [deny, allow] = [`deny-${name}`, `allow-${name}`]

    const each = <T>(expected: T) => Object.fromEntries(familiesOf(name).map((family) => [family, expected]))

    test('its ingress is allowed, by its pod and its Service', oneByOne, async ({ expect }) => {
      const clients = () => clientsOf(name)
      await expect.poll(clients, patience).toEqual(each(ofBoth))
      await cluster.apply(policy(deny, name, { policyTypes: ['Ingress'] }))
      await expect.poll(clients, patience).toEqual(each([]))
      const ingress = [{ from: [labelled], ports: [{ port: 'http' }] }]
      await cluster.apply(policy(allow, name, { policyTypes: ['Ingress'], ingress }))
      await expect.poll(clients, patience).toEqual(each(ofFriend))
      await remove(deny, allow)
      await expect.poll(clients, patience).toEqual(each(ofBoth))
    })

    test('its egress is allowed, and its ingress stays', oneByOne, async ({ expect }) => {
      const reached = () => reachedFrom(name)
      await expect.poll(reached, patience).toEqual(each({ friend: 'served', stranger: 'served', dns: 'found' }))
      await cluster.apply(policy(deny, name, { policyTypes: ['Egress'] }))
      await expect.poll(reached, patience).toEqual(each({ friend: 'refused', stranger: 'refused', dns: 'not found' }))
      expect(await clientsOf(name)).toEqual(each(ofBoth))
      const dns = { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } } }
      const egress = [
        { to: [labelled], ports: [{ port: 8080 }] },
        { to: [dns], ports: [{ port: 53, protocol: 'UDP' }, { port: 53 }] },
      ]
      await cluster.apply(policy(allow, name, { policyTypes: ['Egress'], egress }))
      await expect.poll(reached, patience).toEqual(each({ friend: 'served', stranger: 'refused', dns: 'found' }))
      await remove(deny, allow)
      await expect.poll(reached, patience).toEqual(each({ friend: 'served', stranger: 'served', dns: 'found' }))
    })
  })
})

/** Of each family of addresses that the guest has. */
async function byFamily<T>(name: Name, of: (family: Family) => Promise<T>): Promise<object> {
  const found: [Family, T][] = []
  for (const family of familiesOf(name)) found.push([family, await of(family)])
  return Object.fromEntries(found)
}

/** What an HTTP server in a guest responds to this host, which is the node. */
async function ask(address: string, path: string): Promise<string> {
  const response = await fetch(`http://${address}/cgi-bin/${path}`, { signal: AbortSignal.timeout(60_000) })
  return (await response.text()).trim()
}

/** A policy for the VM with this label. */
const policy = (name: string, app: Name, spec: object) => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name },
  spec: { podSelector: { matchLabels: { app } }, ...spec },
})

const service = (app: Name) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: app },
  spec: { ipFamilyPolicy: 'PreferDualStack', selector: { app }, ports: [{ port: 8080, targetPort: 'http' }] },
})

/** Of a node that is cordoned. */
const onlyOn = (node: string) => ({
  nodeSelector: { 'kubernetes.io/hostname': node },
  tolerations: [{ key: 'node.kubernetes.io/unschedulable', operator: 'Exists', effect: 'NoSchedule' }],
})

/** A pod that serves, with Node, in the image of the handler, which all nodes have. */
const pod = (name: string, node: string, image: string, labels: object) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels },
  spec: {
    ...onlyOn(node),
    terminationGracePeriodSeconds: 0,
    automountServiceAccountToken: false,
    containers: [
      { name, image, args: ['-e', 'http.createServer((request, response) => response.end("served")).listen(8080)'] },
    ],
  },
})

/** Programs that the guest's web server runs, by name. It shows clients by IPv4 as IPv6 has them. */
const programs: { readonly [name: string]: string } = {
  who: 'echo "$REMOTE_ADDR" | sed \'s/^.*::ffff:\\([0-9.]*\\).*/\\1/\'',
  get: 'wget -q -T 5 -O - "http://$QUERY_STRING/" 2>/dev/null || echo refused',
  look: 'timeout 5 nslookup "$QUERY_STRING" >/dev/null 2>&1 && echo found || echo "not found"',
}

/** What the guest's DHCPv6 client runs. */
const bindsIpv6 = `    #!/bin/sh
    [ "$1" != bound ] || ip address add "$ipv6/128" dev "$interface"
`

function vm(name: Name, node: string, root: object): object {
  const files = Object.entries(programs).map(([program, line]) => {
    const script = ['#!/bin/sh', String.raw`printf 'Content-Type: text/plain\r\n\r\n'`, line]
    const content = script.map((each) => `    ${each}\n`).join('')
    return `- path: /www/cgi-bin/${program}\n  permissions: "0755"\n  content: |\n${content}`
  })
  const bound = `- path: /bin/bound\n  permissions: "0755"\n  content: |\n${bindsIpv6}`
  const commands = 'runcmd:\n- httpd -p 80 -h /www\n- udhcpc6 -b -t 60 -T 1 -i eth0 -s /bin/bound\n'
  const userData = `#cloud-config\nwrite_files:\n${files.join('')}${bound}${commands}`
  return deaf(
    name,
    {
      terminationGracePeriodSeconds: 0,
      ...onlyOn(node),
      volumes: [root, { name: 'seed', cloudInit: { userData } }],
      ports: [{ name: 'http', port: 80 }],
      taps: taps[name],
    },
    {
      memory: { unit: 'MiB', value: 192 },
      devices: {
        interfaces: [{}],
        disks: [
          { type: 'volume', source: { volume: 'root' }, target: { dev: 'vda', bus: 'virtio' } },
          { type: 'volume', device: 'cdrom', source: { volume: 'seed' }, target: { dev: 'sda', bus: 'sata' } },
        ],
      },
    },
    { labels: { app: name } },
  )
}
