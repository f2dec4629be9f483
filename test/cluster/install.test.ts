import { readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { nodePaths } from '../../cluster/node.ts'
import { run } from '../../cluster/command.ts'
import { publishedTag } from '../published-tag.ts'
import { openCluster, type TestCluster } from './cluster.ts'
import { deaf } from './vms.ts'

/**
 * Installs `manifests/` unchanged, with kubectl only. The images are those of `make up` under other names. At the end,
 * the installation of `make up` is restored.
 */
let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
})
afterAll(async () => {
  await cluster.kubectl(
    ...anywhere,
    'apply',
    '--server-side',
    '--force-conflicts',
    '-k',
    join(cluster.state, 'install'),
  )
  for (const workload of workloads) await cluster.kubectl(...system, 'rollout', 'status', workload, '--timeout=240s')
  await cluster.close()
})

const system = ['-n', 'virtset-system']
/** The manifests contain their namespaces. */
const anywhere = ['-n', '']
const workloads = ['deployment/virtset-webhooks', 'deployment/virtset-controller', 'daemonset/virtset-handler']

/** Tags an image with another name in every node's containerd. */
async function tag(image: string, name: string): Promise<void> {
  for (const node of readdirSync(join(cluster.state, 'nodes'))) {
    const record = readFileSync(join(cluster.state, 'processes', `containerd-${node}.json`), 'utf8')
    const ctr = join(dirname(readlinkSync(`/proc/${JSON.parse(record).pid}/exe`)), 'ctr')
    const command = [ctr, '--address', nodePaths(cluster.state, node).socket, '--namespace', 'k8s.io']
    await run([...command, 'images', 'tag', '--force', image, name])
  }
}

test('kubectl apply --server-side -k manifests/ is sufficient if the images can be pulled, and repeating it changes nothing', async () => {
  const field = (path: string, ...what: string[]) =>
    cluster.kubectl(...system, 'get', ...what, '-o', `jsonpath={${path}}`)
  const launcher = '.spec.template.spec.containers[0].env[?(@.name=="LAUNCHER_IMAGE")].value'
  const built = {
    virtset: await field('.spec.template.spec.containers[0].image', 'deployment/virtset-webhooks'),
    launcher: await field(launcher, 'deployment/virtset-controller'),
  }
  const named = (await cluster.kubectl('kustomize', 'manifests/')).match(/ghcr\.io\/[^\s"]+/g) ?? []
  expect(new Set(named)).toEqual(
    new Set(['virtset', 'launcher'].map((name) => `ghcr.io/virtset/${name}:${publishedTag}`)),
  )
  for (const name of new Set(named)) await tag(name.includes('launcher') ? built.launcher : built.virtset, name)

  await cluster.kubectl(...anywhere, 'apply', '--server-side', '-k', 'manifests/')
  for (const workload of workloads) await cluster.kubectl(...system, 'rollout', 'status', workload, '--timeout=240s')
  await cluster.apply(deaf('plain', { terminationGracePeriodSeconds: 0 }))
  await cluster.untilVm('plain', 'runs', ({ status }) => status?.phase === 'Running')
  const images = await cluster.kubectl('get', 'pods', '-o', 'jsonpath={.items[*].spec.containers[*].image}')
  expect(images).toBe(`ghcr.io/virtset/launcher:${publishedTag}`)

  const generations = () =>
    cluster.kubectl(...anywhere, 'get', '-k', 'manifests/', '-o', 'jsonpath={.items[*].metadata.generation}')
  const before = await generations()
  await cluster.kubectl(...anywhere, 'apply', '--server-side', '-k', 'manifests/')
  expect(await generations()).toBe(before)
})
