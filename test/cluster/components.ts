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
  return uids.split(' ').flatMap((uid) => processesOfPod(uid, (command) => command.includes(`${component}/main.ts`)))
}

/** Kills all processes of a component; returns a function that waits until as many are ready again. */
export async function killComponent(cluster: TestCluster, component: string): Promise<() => Promise<void>> {
  const before = await processesOfComponent(cluster, component)
  if (before.length === 0) throw new Error(`no process of ${component} runs`)
  for (const pid of before) process.kill(pid, 'SIGKILL')
  return async () => {
    await cluster.until(`${component} is back`, async () => {
      const now = await processesOfComponent(cluster, component)
      return now.length >= before.length && now.every((pid) => !before.includes(pid)) ? true : undefined
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
