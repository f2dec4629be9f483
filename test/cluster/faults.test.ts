import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { guestGreeting } from '../../cluster/guest.ts'
import { openCluster, processesOfPod, type Condition, type Machine, type TestCluster } from './cluster.ts'
import { deaf, guest, presets } from './machines.ts'

let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
  await cluster.apply(...presets)
})
afterAll(() => cluster.close())

const inPhase = (phase: string) => (machine: Machine) => machine.status?.phase === phase
const condition = (machine: Machine, type: string): Condition | undefined =>
  machine.status?.conditions?.find((each) => each.type === type)
/** Ends at once when it is told to, so that no test waits for another's guest. */
const impatient = { terminationGracePeriodSeconds: 0 }

const isLauncher = (command: string) => command.startsWith('virt-launcher')
const isLibvirtd = (command: string) => command.startsWith('libvirtd')
const isQemu = (command: string) => command.startsWith('/usr/bin/qemu-system-')

/** The one process of a VM's pod that is wanted. */
function processOf(machine: Machine, isWanted: (command: string) => boolean): number {
  const pids = processesOfPod(machine.status?.podUID ?? 'no pod', isWanted)
  const [pid] = pids
  if (pid === undefined || pids.length > 1) throw new Error(`not one process, but ${pids.length}`)
  return pid
}

async function running(name: string, spec: object = impatient): Promise<Machine> {
  await cluster.apply(deaf(name, spec))
  return cluster.untilMachine(name, 'runs', inPhase('Running'))
}

/** The processes of one of virtset's own components, on all nodes. */
async function componentProcesses(component: string): Promise<number[]> {
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

/** Kills all of a component at once, and gives back what waits until as many are there and ready again. */
async function kill(component: string): Promise<() => Promise<void>> {
  const before = await componentProcesses(component)
  expect(before).not.toEqual([])
  for (const pid of before) process.kill(pid, 'SIGKILL')
  return async () => {
    await cluster.until(
      `${component} is back`,
      async () => {
        const now = await componentProcesses(component)
        return now.length >= before.length && now.every((pid) => !before.includes(pid)) ? true : undefined
      },
      120_000,
    )
    const workload = component === 'handler' ? 'daemonset' : 'deployment'
    await cluster.kubectl(
      '-n',
      'virtset-system',
      'rollout',
      'status',
      `${workload}/virtset-${component}`,
      '--timeout=120s',
    )
  }
}

describe('kill -9 of what runs in a VM’s pod', () => {
  test('QEMU: the VM has failed, and is never started again', async () => {
    const machine = await running('no-qemu')
    process.kill(processOf(machine, isQemu), 'SIGKILL')
    const failed = await cluster.untilMachine('no-qemu', 'has failed', inPhase('Failed'))
    expect(failed.status?.podUID).toBe(machine.status?.podUID)
    expect(condition(failed, 'Ready')).toMatchObject({ status: 'False' })
    await cluster.until('the pod has ended', async () => {
      const phase = await cluster.kubectl(
        'get',
        'pods',
        '-l',
        'virtset.io/vm-name=no-qemu',
        '-o',
        'jsonpath={.items[*].status.phase}',
      )
      return phase === 'Failed' ? true : undefined
    })
  })

  test('QEMU by the kernel, for memory: the VM says so, with the limit of its pod', async () => {
    // What a cluster preset gives to QEMU directly is what the limit does not count.
    const args = ['-object', 'memory-backend-ram,id=hog,size=1G,prealloc=on'].map((value) => ({ value }))
    await cluster.apply(
      {
        apiVersion: 'virtset.io/v1alpha1',
        kind: 'ClusterVirtualMachinePreset',
        metadata: { name: 'hog' },
        spec: { selector: { matchLabels: { hog: 'true' } }, domain: { qemuCommandline: { args } } },
      },
      deaf('greedy', impatient, {}, { labels: { hog: 'true' } }),
    )
    const failed = await cluster.untilMachine('greedy', 'has failed', inPhase('Failed'))
    expect(failed.status).toMatchObject({
      reason: 'OOMKilled',
      message: expect.stringMatching(/limit (of|is) \d+ MiB/),
    })
    expect(await cluster.kubectl('get', 'vm', 'greedy', '-o', 'wide')).toContain('OOMKilled')
    const events = await cluster.kubectl(
      'get',
      'events',
      '--field-selector',
      'involvedObject.name=greedy,reason=OOMKilled',
      '-o',
      'name',
    )
    expect(events).not.toBe('')
    await cluster.kubectl('delete', 'cvmp', 'hog')
  })

  test('libvirtd: another one takes the same QEMU over, and the VM still ends in peace', async () => {
    await cluster.apply(guest('no-libvirtd', { terminationGracePeriodSeconds: 120 }))
    const machine = await cluster.untilMachine('no-libvirtd', 'runs', inPhase('Running'))
    const [libvirtd, qemu] = [processOf(machine, isLibvirtd), processOf(machine, isQemu)]
    process.kill(libvirtd, 'SIGKILL')
    await cluster.until('another libvirtd', async () => {
      const [now] = processesOfPod(machine.status?.podUID ?? '', isLibvirtd)
      return now !== undefined && now !== libvirtd ? true : undefined
    })
    expect(processOf(machine, isQemu)).toBe(qemu)
    const console = await cluster.until('the console again', () => cluster.console(machine).catch(() => undefined))
    console.write('boot\r')
    await console.hear(guestGreeting)
    expect(await cluster.machine('no-libvirtd')).toMatchObject({ status: { phase: 'Running' } })
    await cluster.kubectl('delete', 'vm', 'no-libvirtd', '--wait=false')
    await console.hear('power button')
    console.close()
    await cluster.untilGone('no-libvirtd')
  })

  test('the launcher: the pod ends, QEMU with it, and the VM has failed', async () => {
    const machine = await running('no-launcher')
    process.kill(processOf(machine, isLauncher), 'SIGKILL')
    const failed = await cluster.untilMachine('no-launcher', 'has failed', inPhase('Failed'))
    expect(failed.status?.podUID).toBe(machine.status?.podUID)
    expect(processesOfPod(machine.status?.podUID ?? '', () => true)).toEqual([])
  })
})

describe('kill -9 of virtset itself', () => {
  test('the handlers: guests go on, and what happened meanwhile is reported', async () => {
    const [stays, goes] = [await running('stays'), await running('goes')]
    const qemu = processOf(stays, isQemu)
    const back = await kill('handler')
    process.kill(processOf(goes, isQemu), 'SIGKILL')
    await cluster.untilMachine('goes', 'has failed', inPhase('Failed'))
    await back()
    expect(processOf(stays, isQemu)).toBe(qemu)
    expect(await cluster.machine('stays')).toMatchObject({ status: { phase: 'Running' } })
  })

  test('the handlers, while a VM is being deleted: it ends when its grace period does, not later', async () => {
    const graceSeconds = 10
    await running('half-deleted', { terminationGracePeriodSeconds: graceSeconds })
    await cluster.kubectl('delete', 'vm', 'half-deleted', '--wait=false')
    const start = performance.now()
    const back = await kill('handler')
    await cluster.untilGone('half-deleted')
    // Its own period, what the launcher waits for a handler that is not there, and the pod's removal.
    expect(performance.now() - start).toBeLessThan((graceSeconds + 30) * 1000)
    await back()
  })

  test('the controllers: VMs run on, new ones wait and then run, each in one pod', async () => {
    const before = await running('before')
    const back = await kill('controller')
    await cluster.apply(deaf('meanwhile', impatient))
    await cluster.untilMachine('meanwhile', 'runs', inPhase('Running'), 120_000)
    await back()
    expect((await cluster.machine('before'))?.status).toMatchObject({ phase: 'Running', podUID: before.status?.podUID })
    const pods = await cluster.kubectl('get', 'pods', '-l', 'virtset.io/vm-name=meanwhile', '-o', 'name')
    expect(pods.trim().split('\n')).toHaveLength(1)
  })

  test('the webhooks: VMs run on, no VM slips in unseen, and afterwards it is as before', async () => {
    const machine = await running('under-way')
    const back = await kill('webhooks')
    const { output } = await cluster.create(deaf('unseen', impatient))
    const unseen = await cluster.machine('unseen')
    // Either the API server says that it asked in vain, or the webhooks were back so soon that they completed it.
    const annotations = Object.keys(unseen?.metadata.annotations ?? {})
    expect(unseen === undefined ? output : annotations.join()).toContain(
      unseen === undefined ? 'failed calling webhook' : 'virtset.io/completed-by',
    )
    await back()
    expect((await cluster.machine('under-way'))?.status).toMatchObject({
      phase: 'Running',
      podUID: machine.status?.podUID,
    })
    await running('afterwards')
  })
})

describe('a VM that cannot run', () => {
  test('its iSCSI target is away: it has failed, with QEMU’s own words', async () => {
    // A Service behind which there is nobody refuses at once.
    await cluster.apply({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'away' },
      spec: { ports: [{ port: 3260 }], selector: { app: 'nobody' } },
    })
    const source = {
      protocol: 'iscsi',
      name: 'iqn.2017-01.io.kubevirt:sn.42/2',
      host: { name: `away.${cluster.namespace}`, port: '3260' },
    }
    const disks = [{ type: 'network', device: 'disk', source, target: { dev: 'vda' } }]
    await cluster.apply(deaf('no-target', impatient, { devices: { disks } }))
    const failed = await cluster.untilMachine('no-target', 'has failed', inPhase('Failed'))
    expect(failed.status).toMatchObject({
      reason: 'StartFailed',
      message: expect.stringMatching(/iSCSI: Failed to connect to LUN/),
    })
    expect(failed.status?.message).not.toMatch(/\n\s+at |Error:/)
    expect(condition(failed, 'Ready')).toMatchObject({ status: 'False' })
  })

  test('no node fits: it waits, and says so in the scheduler’s words', async () => {
    await cluster.apply(deaf('nowhere', { ...impatient, nodeSelector: { 'kubernetes.io/hostname': 'no-such-node' } }))
    const waiting = await cluster.untilMachine(
      'nowhere',
      'waits',
      (machine) => condition(machine, 'PodScheduled')?.status === 'False',
    )
    expect(waiting.status?.phase).toBe('Scheduling')
    expect(condition(waiting, 'PodScheduled')).toMatchObject({
      reason: 'Unschedulable',
      message: expect.stringContaining("didn't match Pod's node affinity/selector"),
    })
    await cluster.kubectl('delete', 'vm', 'nowhere', '--timeout=30s')
  })

  test('it needs KVM and no node has it: refused, with the name of the node', async () => {
    const { status, output } = await cluster.create(deaf('needs-kvm', impatient, { type: 'kvm' }))
    expect([status, output]).toEqual([1, expect.stringMatching(/spec\.domain\.type: .*"kvm".*node node1 lacks KVM/)])
  })

  test('it is refused: every cause in one answer, exit status 1, and nothing is stored', async () => {
    const disk = (path: string) => ({ type: 'file', device: 'disk', source: { file: path }, target: { dev: 'vda' } })
    const refused = deaf('refused', impatient, {
      os: { type: { os: 'hvm', machine: 'q53' } },
      devices: { disks: [disk('/etc/shadow'), disk('/etc/passwd')] },
    })
    const { status, output } = await cluster.create(refused)
    expect(status).toBe(1)
    expect(output).toContain('The VirtualMachine "refused" is invalid')
    for (const words of [
      'spec.domain.os.type.machine',
      '"q35"',
      'spec.domain.devices.disks[0].source.file',
      'spec.domain.devices.disks[1].source.file',
      'spec.domain.devices.disks[1].target.dev',
    ])
      expect(output).toContain(words)
    expect(await cluster.machine('refused')).toBeUndefined()
  })

  test('a field has a wrong name: refused, with the nearest that there is', async () => {
    const machine = deaf('typo', impatient, { memry: { value: 64 } })
    expect(await cluster.create(machine)).toMatchObject({ status: 1, output: expect.stringMatching(/memry.*memory/s) })
    expect(await cluster.machine('typo')).toBeUndefined()
  })
})
