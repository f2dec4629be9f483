import { processesOfPod, type TestCluster } from './cluster.ts'

/** The processes of one of virtset's own components, on all nodes. */
export async function processesOfComponent(cluster: TestCluster, component: string): Promise<number[]> {
  const label = `app.kubernetes.io/component=${component}`
  const uids = await cluster.kubectl(
    '-n',
    'virtset-system',
    'get',
    'pods',
    '-l',
    label,
    '-o',
    'jsonpath={.items[*].metadata.uid}',
  )
  return uids
    .split(' ')
    .filter((uid) => uid !== '')
    .flatMap((uid) => processesOfPod(uid, (command) => command.includes(`${component}/main.ts`)))
}

interface ContainerStatus {
  readonly containerID?: string
  readonly ready: boolean
}

/** As the kubelets report them. */
async function containersOfComponent(cluster: TestCluster, component: string): Promise<readonly ContainerStatus[]> {
  const label = `app.kubernetes.io/component=${component}`
  const { items }: { items: { status: { containerStatuses?: readonly ContainerStatus[] } }[] } = JSON.parse(
    await cluster.kubectl('-n', 'virtset-system', 'get', 'pods', '-l', label, '-o', 'json'),
  )
  return items.flatMap(({ status }) => status.containerStatuses ?? [])
}

/** Kills all processes of a component; returns a function that waits until as many are ready again. */
export async function killComponent(cluster: TestCluster, component: string): Promise<() => Promise<void>> {
  const before = await processesOfComponent(cluster, component)
  if (before.length === 0) throw new Error(`no process of ${component} runs`)
  const killed = (await containersOfComponent(cluster, component)).map(({ containerID }) => containerID)
  for (const pid of before) process.kill(pid, 'SIGKILL')
  return async () => {
    await cluster.until(`${component} is back`, async () => {
      const now = await containersOfComponent(cluster, component)
      // For a moment after the kill, the status is still that of the killed containers.
      const areOther = now.every(({ containerID, ready }) => ready && !killed.includes(containerID))
      return now.length >= killed.length && areOther ? true : undefined
    })
    const workload = component === 'handler' ? 'daemonset' : 'deployment'
    await cluster.kubectl(
      '-n',
      'virtset-system',
      'rollout',
      'status',
      `${workload}/virtset-${component}`,
      '--timeout=240s',
    )
  }
}
