import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openCluster, processesOfPod, type TestCluster, type VirtualMachine } from './cluster.ts'
import { hasSpareNode, openSpare, type Spare } from './spare.ts'
import { deaf } from './vms.ts'

/** On the cluster of `make up`, which has no spare node, this block does not run. */
describe.runIf(hasSpareNode())('dedicated CPUs of the spare node', () => {
  let cluster: TestCluster
  let spare: Spare
  beforeAll(async () => {
    cluster = await openCluster()
    spare = openSpare(cluster)
    await spare.uncordon()
  })
  afterAll(async () => {
    await cluster.kubectl('delete', 'vm', '--all', '--timeout=240s')
    await spare.repair()
    await cluster.close()
  })

  const start = (name: string) =>
    cluster.apply(
      deaf(name, {
        dedicatedCPUs: true,
        nodeSelector: { 'kubernetes.io/hostname': spare.name },
        terminationGracePeriodSeconds: 0,
      }),
    )

  /** What the kubelet has stored: a set of CPUs for each container of a pod. */
  const assignedTo = ({ status }: VirtualMachine): unknown => {
    const file = join(cluster.state, 'nodes', spare.name, 'kubelet/cpu_manager_state')
    return JSON.parse(readFileSync(file, 'utf8')).entries?.[status?.podUID ?? 'no pod']
  }

  /** The CPUs that the threads of a VM's QEMU can use. */
  const cpusOf = ({ status }: VirtualMachine): string[] => {
    const [pid] = processesOfPod(status?.podUID ?? 'no pod', (command) => command.startsWith('/usr/bin/qemu-system-'))
    const lists = readdirSync(`/proc/${pid}/task`).flatMap((thread) => {
      try {
        const status = readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8')
        return [/^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1] ?? '']
      } catch {
        // QEMU's workers end when they have nothing to do.
        return []
      }
    })
    return [...new Set(lists)]
  }

  test('are refused by a kubelet that shares all of them, and given by one with the policy static', async () => {
    await start('shared')
    const shared = await cluster.untilVm('shared', 'has failed', ({ status }) => status?.phase === 'Failed')
    // Reserves one CPU, and leaves the scheduler most of it.
    await spare.reconfigureKubelet('cpuManagerPolicy: static\nsystemReserved: {cpu: 100m}\n')
    await start('dedicated')
    const vm = await cluster.untilVm('dedicated', 'runs', ({ status }) => status?.phase === 'Running')
    const assigned = assignedTo(vm)
    const [cpuset] = Object.values(assigned ?? {})
    expect({
      shared: [shared.status?.reason, shared.status?.message],
      cpuset,
      assigned,
      threads: cpusOf(vm),
      cputune: vm.status?.domain?.['cputune'],
    }).toEqual({
      shared: ['StartFailed', expect.stringContaining('the kubelet of the node needs the CPU manager policy static')],
      cpuset: expect.stringMatching(/^\d+$/),
      assigned: { compute: cpuset },
      threads: [cpuset],
      cputune: { vcpupins: [{ vcpu: 0, cpuset }], emulatorpin: { cpuset } },
    })
  })
})
