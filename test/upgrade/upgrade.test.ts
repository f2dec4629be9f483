import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { run } from '../../cluster/command.ts'
import { eventually } from '../until.ts'
import { openCluster, processesOfPod, type VirtualMachine, type TestCluster } from '../cluster/cluster.ts'
import { deaf, guest, presets } from '../cluster/vms.ts'

/**
 * `make upgrade-test` has started a cluster and written two kustomizations: PREVIOUS and CURRENT. Running VMs must not
 * be affected, and new ones must start with every combination of versions.
 */
let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
  await insist('creating presets', () => cluster.apply(...presets))
})
afterAll(() => cluster.close())

const setting = (name: string): string => {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set: run \`make upgrade-test\``)
  return value
}

interface KubernetesObject {
  readonly kind: string
  readonly metadata: { readonly name: string }
}
type Version = 'PREVIOUS' | 'CURRENT'
type Component = 'webhooks' | 'controller' | 'handler'
const components: readonly Component[] = ['webhooks', 'controller', 'handler']

const workloads: { readonly [component in Component]: string } = {
  webhooks: 'deployment/virtset-webhooks',
  controller: 'deployment/virtset-controller',
  handler: 'daemonset/virtset-handler',
}

/**
 * The objects that replace a component: its workload, for the webhooks what names the paths and ports that they serve,
 * and for the controller the policy with the launcher image that it may use.
 */
const partsOf: { readonly [component in Component]: readonly string[] } = {
  webhooks: [
    'Deployment virtset-webhooks',
    'MutatingWebhookConfiguration virtset',
    'ValidatingWebhookConfiguration virtset',
    'APIService v1alpha1.admission.virtset.io',
    'APIService v1alpha1.subresources.virtset.io',
    'APIService v1alpha1.sessions.virtset.io',
  ],
  controller: ['Deployment virtset-controller', 'ValidatingAdmissionPolicy virtset-controller-pods'],
  handler: ['DaemonSet virtset-handler'],
}
const allParts = components.flatMap((component) => partsOf[component])

const kubectl = (...rest: string[]) => [
  join(setting('KUBE_BIN_DIR'), 'kubectl'),
  '--kubeconfig',
  setting('KUBECONFIG'),
  ...rest,
]

const rendered = new Map<Version, readonly KubernetesObject[]>()
async function objectsOf(version: Version): Promise<readonly KubernetesObject[]> {
  const known = rendered.get(version)
  if (known !== undefined) return known
  const text = await run(kubectl('kustomize', setting(version)))
  const objects = parseAllDocuments(text).map((document): KubernetesObject => document.toJS())
  rendered.set(version, objects)
  return objects
}

async function apply(version: Version, isWanted: (name: string) => boolean): Promise<void> {
  const items = (await objectsOf(version)).filter(({ kind, metadata }) => isWanted(`${kind} ${metadata.name}`))
  const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items })
  await run(kubectl('apply', '--server-side', '--force-conflicts', '-f', '-'), { input })
}

/** While nothing serves the API of an APIService, no namespace can be deleted. */
async function deleteUnknownApis(version: Version): Promise<void> {
  const known = (await objectsOf(version)).map(({ kind, metadata }) => `${kind} ${metadata.name}`)
  const unknown = partsOf.webhooks.filter((name) => name.startsWith('APIService ') && !known.includes(name))
  const names = unknown.map((name) => name.replace('APIService ', 'apiservice/'))
  if (names.length > 0) await run(kubectl('delete', ...names, '--ignore-not-found'))
}

async function untilRolled(component: Component): Promise<void> {
  await run(kubectl('-n', 'virtset-system', 'rollout', 'status', workloads[component], '--timeout=300s'))
}

/** Applies everything at once, as an operator does. */
async function install(version: Version): Promise<void> {
  await apply(version, () => true)
  for (const component of components) await untilRolled(component)
  await deleteUnknownApis(version)
}

async function roll(component: Component, version: Version): Promise<void> {
  await apply(version, (name) => partsOf[component].includes(name))
  await untilRolled(component)
  if (component === 'webhooks') await deleteUnknownApis(version)
}

/** Under load, an admission request can exceed its five seconds: clients retry. */
const insist = (what: string, act: () => Promise<unknown>) => eventually(what, () => act().then(() => true), rollMs)

const isRunning = (vm: VirtualMachine) => vm.status?.phase === 'Running'
const rollMs = 180_000

/** The parts of a running VM that must not change: the object, the pod, the QEMU. */
async function lifeOf(name: string): Promise<object> {
  const vm = await cluster.untilVm(name, 'runs', isRunning, rollMs)
  const podUid = vm.status?.podUID ?? ''
  return {
    uid: vm.metadata.uid,
    podUid,
    qemu: processesOfPod(podUid, (line) => line.startsWith('/usr/bin/qemu-system-')),
  }
}

/** Creates a VM, waits until it runs, deletes it and waits until it is gone. */
async function comesAndGoes(name: string): Promise<void> {
  await insist(`creating ${name}`, () => cluster.apply(deaf(name, { terminationGracePeriodSeconds: 0 })))
  await cluster.untilVm(name, 'runs', isRunning, rollMs)
  await cluster.kubectl('delete', 'vm', name, '--wait=false')
  await cluster.untilGone(name, rollMs)
}

/**
 * Rolls components forward and back in a Gray code, so that each of the eight combinations of versions occurs once.
 * Every order of an upgrade is a path through these combinations.
 */
const walk: readonly (readonly [Component, Version])[] = [
  ['handler', 'CURRENT'],
  ['controller', 'CURRENT'],
  ['handler', 'PREVIOUS'],
  ['webhooks', 'CURRENT'],
  ['handler', 'CURRENT'],
  ['controller', 'PREVIOUS'],
  ['handler', 'PREVIOUS'],
  ['webhooks', 'PREVIOUS'],
]

test('running VMs survive every combination of versions, and new ones start with each', async () => {
  await install('PREVIOUS')
  const { spec } = deaf('template', { terminationGracePeriodSeconds: 0 }) as { spec: object }
  const api = { apiVersion: 'virtset.io/v1alpha1' }
  const selector = { matchLabels: { app: 'group' } }
  const objects = [
    guest('obeys', { terminationGracePeriodSeconds: 60 }),
    deaf('deaf', { terminationGracePeriodSeconds: 0 }),
    { ...api, kind: 'VirtualMachineConfig', metadata: { name: 'of-config' }, spec: { template: { spec } } },
    {
      ...api,
      kind: 'VirtualMachineGroup',
      metadata: { name: 'group' },
      spec: { replicas: 2, selector, template: { metadata: { labels: selector.matchLabels }, spec } },
    },
  ]
  await insist('creating VMs', () => cluster.apply(...objects))
  await insist('starting of-config', () =>
    run([process.execPath, 'cli/main.ts', 'start', 'of-config', '-n', cluster.namespace]),
  )
  const ofGroup = await cluster.until('both VMs of the group', async () => {
    const names = await cluster.kubectl('get', 'vm', '-l', 'app=group', '-o', 'jsonpath={.items[*].metadata.name}')
    return names.split(' ').length === 2 ? names.split(' ') : undefined
  })
  const names = ['deaf', 'of-config', ...ofGroup]
  const lives = async () => Object.fromEntries(await Promise.all(names.map(async (name) => [name, await lifeOf(name)])))
  const before = await lives()
  expect(Object.values(before)).toEqual(names.map(() => expect.objectContaining({ qemu: [expect.any(Number)] })))
  const obeys = await lifeOf('obeys')
  const states: string[] = []
  const check = async (state: string) => {
    await comesAndGoes(`new-${states.push(state)}`)
    expect([state, await lives()]).toEqual([state, before])
  }

  // CRDs, roles and policies are first in an upgrade, and last in a rollback.
  await apply('CURRENT', (name) => !allParts.includes(name))
  await check('the objects of the new version, the processes of the old')
  for (const [component, version] of walk) {
    await roll(component, version)
    await check(`${component} of the version ${version}`)
  }
  await install('CURRENT')
  await check('the new version')
  // The new version shuts down a VM that the old version started.
  expect(await lifeOf('obeys')).toEqual(obeys)
  await cluster.kubectl('delete', 'vm', 'obeys', '--wait=false')
  await cluster.untilGone('obeys', rollMs)
  await install('PREVIOUS')
  await check('the old version again')
})
