import { afterAll, beforeAll, expect, test } from 'vitest'

import { openCluster, type TestCluster, type VirtualMachine } from '../cluster.ts'
import { linuxVolume } from '../example-images.ts'
import { deaf, presets } from '../vms.ts'

let cluster: TestCluster

beforeAll(async () => {
  cluster = await openCluster()
  await cluster.apply(...presets, service('web', {}), service('headless', { clusterIP: 'None' }), await client())
  const root = await linuxVolume(cluster)
  await cluster.apply(server(root))
})
afterAll(() => cluster.close())

const service = (name: string, more: object) => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name },
  spec: { selector: { app: 'server' }, ports: [{ port: 8080, targetPort: 'http' }], ...more },
})

/** Programs that the guest's web server runs: the probe of the VM reads the file `ready`. */
const programs = { open: 'echo yes >/www/ready', close: 'rm -f /www/ready', who: 'echo "$REMOTE_ADDR"' }

function server(root: object): object {
  const files = Object.entries(programs).map(([name, line]) => {
    const script = ['#!/bin/sh', String.raw`printf 'Content-Type: text/plain\r\n\r\n'`, line]
    const content = script.map((each) => `    ${each}\n`).join('')
    return `- path: /www/cgi-bin/${name}\n  permissions: "0755"\n  content: |\n${content}`
  })
  const userData = `#cloud-config\nwrite_files:\n${files.join('')}runcmd:\n- httpd -p 0.0.0.0:80 -h /www\n`
  return deaf(
    'server',
    {
      terminationGracePeriodSeconds: 0,
      volumes: [root, { name: 'seed', cloudInit: { userData } }],
      ports: [{ name: 'http', port: 80 }],
      readinessProbe: { httpGet: { port: 'http', path: '/ready' }, periodSeconds: 1, timeoutSeconds: 10 },
    },
    {
      memory: { unit: 'MiB', value: 256 },
      devices: {
        interfaces: [{}],
        disks: [
          { type: 'volume', source: { volume: 'root' }, target: { dev: 'vda', bus: 'virtio' } },
          { type: 'volume', device: 'cdrom', source: { volume: 'seed' }, target: { dev: 'sda', bus: 'sata' } },
        ],
      },
    },
    { labels: { app: 'server' } },
  )
}

/** A pod with Node, in the image of the handler, which all nodes have. */
async function client(): Promise<object> {
  const path = 'jsonpath={.spec.template.spec.containers[0].image}'
  const image = await cluster.kubectl('-n', 'virtset-system', 'get', 'daemonset', 'virtset-handler', '-o', path)
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'client' },
    spec: {
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      containers: [{ name: 'client', image, args: ['-e', 'setInterval(() => {}, 60000)'] }],
    },
  }
}

/** What a module prints in the pod of the client. */
async function inClient(source: string): Promise<string> {
  return (await cluster.kubectl('exec', 'client', '--', 'node', '--input-type=module', '-e', source)).trim()
}

/** The response that the client gets, or that it gets none. */
const fetched = (url: string) =>
  inClient(`
    const response = await fetch('${url}', { signal: AbortSignal.timeout(5000) }).catch(() => undefined)
    console.log(response === undefined ? 'no response' : (await response.text()).trim())`)

interface EndpointSlice {
  readonly endpoints?: readonly {
    readonly addresses: readonly string[]
    readonly conditions: { readonly ready?: boolean }
  }[]
}

/** Waits until each of both Services has exactly these endpoints: ADDRESS and whether it is ready. */
const untilEndpoints = (...expected: readonly string[]) =>
  cluster.until(`the endpoints are ${expected.join(', ') || 'none'}`, async () => {
    for (const name of ['web', 'headless']) {
      const selector = `kubernetes.io/service-name=${name}`
      const { items }: { items: EndpointSlice[] } = JSON.parse(
        await cluster.kubectl('get', 'endpointslices', '-l', selector, '-o', 'json'),
      )
      const found = items
        .flatMap(({ endpoints }) => endpoints ?? [])
        .map(({ addresses, conditions }) => `${addresses.join(' ')} ${conditions.ready}`)
      if (JSON.stringify(found) !== JSON.stringify(expected)) return undefined
    }
    return true
  })

const readyOf = ({ status }: VirtualMachine) => status?.conditions?.find(({ type }) => type === 'Ready')?.status

/** What the guest itself responds, from this host. */
async function ask(address: string, program: keyof typeof programs): Promise<string | undefined> {
  const signal = AbortSignal.timeout(10_000)
  const response = await fetch(`http://${address}/cgi-bin/${program}`, { signal }).catch(() => undefined)
  return response?.ok === true ? response.text() : undefined
}

test('a Service sends requests to a guest exactly while its probe succeeds', async () => {
  const hasAddress = ({ status }: VirtualMachine) => status?.phase === 'Running' && status.podIP !== undefined
  const { status } = await cluster.untilVm('server', 'runs and has an address', hasAddress)
  const address = status?.podIP ?? 'no address'
  await untilEndpoints(`${address} false`)

  // The guest serves, but is not ready.
  await cluster.until(`the guest serves at ${address}`, () => ask(address, 'who'))
  await untilEndpoints(`${address} false`)
  await cluster.kubectl('wait', 'pod/client', '--for=condition=Ready', '--timeout=240s')
  expect(await fetched('http://web:8080/cgi-bin/who')).toBe('no response')

  await cluster.until('the guest has opened', () => ask(address, 'open'))
  await cluster.untilVm('server', 'is ready', (vm) => readyOf(vm) === 'True')
  await untilEndpoints(`${address} true`)
  const path = 'jsonpath={.status.podIP}'
  const ofClient = await cluster.kubectl('get', 'pod', 'client', '-o', path)
  for (const name of ['web', `web.${cluster.namespace}.svc.cluster.local`, 'headless']) {
    // The name of a headless Service is that of the guest itself, with its own port.
    const port = name === 'headless' ? 80 : 8080
    const isSeen = async () => {
      const seen = await fetched(`http://${name}:${port}/cgi-bin/who`)
      return seen === ofClient ? true : undefined
    }
    await cluster.until(`the client reaches the guest as ${name}`, isSeen)
  }

  // The pod follows the labels of its VM, in both directions.
  await cluster.kubectl('label', 'vm', 'server', 'app=other', '--overwrite')
  await untilEndpoints()
  await cluster.kubectl('label', 'vm', 'server', 'app=server', '--overwrite')
  await untilEndpoints(`${address} true`)

  await cluster.until('the guest has closed', () => ask(address, 'close'))
  await cluster.untilVm('server', 'is not ready', (vm) => readyOf(vm) === 'False')
  await untilEndpoints(`${address} false`)
  // kube-proxy follows the endpoints.
  await cluster.until('the Service does not respond', async () =>
    (await fetched('http://web:8080/cgi-bin/who')) === 'no response' ? true : undefined,
  )

  await cluster.kubectl('delete', 'vm', 'server', '--wait=false')
  await cluster.untilGone('server')
  await untilEndpoints()
}, 600_000)
