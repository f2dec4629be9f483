import { readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { nodePaths } from '../../cluster/node.ts'
import { run } from '../../cluster/command.ts'
import { openCluster, type TestCluster } from './cluster.ts'
import { deaf } from './machines.ts'

/**
 * `manifests/` as they stand, for an operator who has nothing but kubectl. They stay installed: the images are those of `make up` by other names, and the next `make up` applies its
 * own again.
 */
let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
})
afterAll(() => cluster.close())

const system = ['-n', 'virtset-system']
/** Manifests name their namespaces. */
const anywhere = ['-n', '']
const workloads = ['deployment/virtset-webhooks', 'deployment/virtset-controller', 'daemonset/virtset-handler']

/** Gives every node's containerd an image that it has by another name, too. */
async function tag(image: string, name: string): Promise<void> {
  for (const node of readdirSync(join(cluster.state, 'nodes'))) {
    const record = readFileSync(join(cluster.state, 'processes', `containerd-${node}.json`), 'utf8')
    const ctr = join(dirname(readlinkSync(`/proc/${JSON.parse(record).pid}/exe`)), 'ctr')
    const command = [ctr, '--address', nodePaths(cluster.state, node).socket, '--namespace', 'k8s.io']
    await run([...command, 'images', 'tag', '--force', image, name])
  }
}

test('kubectl apply --server-side -k manifests/ is all there is to do where its images can be pulled, and again changes nothing', async () => {
  const field = (path: string, ...what: string[]) =>
    cluster.kubectl(...system, 'get', ...what, '-o', `jsonpath={${path}}`)
  const launcher = '.spec.template.spec.containers[0].env[?(@.name=="LAUNCHER_IMAGE")].value'
  const built = {
    virtset: await field('.spec.template.spec.containers[0].image', 'deployment/virtset-webhooks'),
    launcher: await field(launcher, 'deployment/virtset-controller'),
  }
  const named = (await cluster.kubectl('kustomize', 'manifests/')).match(/ghcr\.io\/[^\s"]+/g) ?? []
  expect(new Set(named)).toEqual(new Set(['ghcr.io/virtset/virtset:v0.1.0', 'ghcr.io/virtset/launcher:v0.1.0']))
  for (const name of new Set(named)) await tag(name.includes('launcher') ? built.launcher : built.virtset, name)

  await cluster.kubectl(...anywhere, 'apply', '--server-side', '-k', 'manifests/')
  for (const workload of workloads) await cluster.kubectl(...system, 'rollout', 'status', workload, '--timeout=180s')
  await cluster.apply(deaf('plain', { terminationGracePeriodSeconds: 0 }))
  await cluster.untilMachine('plain', 'runs', ({ status }) => status?.phase === 'Running')
  const images = await cluster.kubectl('get', 'pods', '-o', 'jsonpath={.items[*].spec.containers[*].image}')
  expect(images).toBe('ghcr.io/virtset/launcher:v0.1.0')

  const generations = () =>
    cluster.kubectl(...anywhere, 'get', '-k', 'manifests/', '-o', 'jsonpath={.items[*].metadata.generation}')
  const before = await generations()
  await cluster.kubectl(...anywhere, 'apply', '--server-side', '-k', 'manifests/')
  expect(await generations()).toBe(before)
})
