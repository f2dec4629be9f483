import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { openCluster, processesOfPod, type Condition, type VirtualMachine, type TestCluster } from './cluster.ts'
import { killComponent, processesOfComponent } from './components.ts'
import { inPhase, isLauncher, isLibvirtd, processOf } from './interruption.ts'
import { deaf, guest, presets } from './vms.ts'

let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
  await cluster.apply(...presets)
})
afterAll(() => cluster.close())

const condition = (vm: VirtualMachine, type: string): Condition | undefined =>
  vm.status?.conditions?.find((each) => each.type === type)
/** Its guest is killed at once on deletion, so that no test waits for it. */
const impatient = { terminationGracePeriodSeconds: 0 }

const isQemu = (command: string) => command.startsWith('/usr/bin/qemu-system-')

async function running(name: string, spec: object = impatient): Promise<VirtualMachine> {
  await cluster.apply(deaf(name, spec))
  return cluster.untilVm(name, 'runs', inPhase('Running'))
}

/** Of this cluster. */
const componentProcesses = (component: string) => processesOfComponent(cluster, component)
const kill = (component: string) => killComponent(cluster, component)

describe('kill -9 of the processes in a VM’s pod', { concurrent: true }, () => {
  test('QEMU: the VM has failed, and is never started again', async () => {
    const vm = await running('no-qemu')
    process.kill(processOf(vm, isQemu), 'SIGKILL')
    const failed = await cluster.untilVm('no-qemu', 'has failed', inPhase('Failed'))
    expect(failed.status?.podUID).toBe(vm.status?.podUID)
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

  test('QEMU by the kernel, for memory: the VM reports that, with the limit of its pod', async () => {
    // The limit does not cover arguments that a cluster preset passes to QEMU directly.
    const args = ['-object', 'memory-backend-ram,id=hog,size=1G,prealloc=on'].map((value) => ({ value }))
    await cluster.apply({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'ClusterVirtualMachinePreset',
      metadata: { name: 'hog' },
      spec: { selector: { matchLabels: { hog: 'true' } }, domain: { qemuCommandline: { args } } },
    })
    await cluster.createWith('id=hog', deaf('greedy', impatient, {}, { labels: { hog: 'true' } }))
    const failed = await cluster.untilVm('greedy', 'has failed', inPhase('Failed'))
    expect(failed.status).toMatchObject({
      reason: 'OOMKilled',
      message: expect.stringMatching(/limit (of|is) \d+ MiB/),
    })
    expect(await cluster.kubectl('get', 'vm', 'greedy', '-o', 'wide')).toContain('OOMKilled')
    // The handler writes the status first.
    const ofEnd = ['--field-selector', 'involvedObject.name=greedy,reason=OOMKilled', '-o', 'name']
    await cluster.until(
      'an event OOMKilled',
      async () => (await cluster.kubectl('get', 'events', ...ofEnd)) !== '' || undefined,
    )
    await cluster.kubectl('delete', 'cvmp', 'hog')
  })

  test('libvirtd: another one takes over the same QEMU, and the VM still shuts down gracefully', async () => {
    await cluster.apply(guest('no-libvirtd', { terminationGracePeriodSeconds: 120 }))
    const vm = await cluster.untilVm('no-libvirtd', 'runs', inPhase('Running'))
    const [libvirtd, qemu] = [processOf(vm, isLibvirtd), processOf(vm, isQemu)]
    process.kill(libvirtd, 'SIGKILL')
    await cluster.until('another libvirtd', async () => {
      const [now] = processesOfPod(vm.status?.podUID ?? '', isLibvirtd)
      return now !== undefined && now !== libvirtd ? true : undefined
    })
    expect(processOf(vm, isQemu)).toBe(qemu)
    const console = await cluster.until('the console again', () => cluster.console(vm).catch(() => undefined))
    await console.isUp()
    expect(await cluster.vm('no-libvirtd')).toMatchObject({ status: { phase: 'Running' } })
    console.close()
    await cluster.kubectl('delete', 'vm', 'no-libvirtd', '--wait=false')
    await cluster.untilPoweredOff('no-libvirtd')
  })

  test('of the launcher: the pod ends with QEMU, and the VM fails', async () => {
    const vm = await running('no-launcher')
    process.kill(processOf(vm, isLauncher), 'SIGKILL')
    const failed = await cluster.untilVm('no-launcher', 'has failed', inPhase('Failed'))
    expect(failed.status?.podUID).toBe(vm.status?.podUID)
    expect(processesOfPod(vm.status?.podUID ?? '', () => true)).toEqual([])
  })
})

describe('kill -9 of virtset itself', () => {
  test('the handlers: guests continue to run, and changes meanwhile are reported', async () => {
    const [stays, goes] = [await running('stays'), await running('goes')]
    const qemu = processOf(stays, isQemu)
    const back = await kill('handler')
    process.kill(processOf(goes, isQemu), 'SIGKILL')
    await cluster.untilVm('goes', 'has failed', inPhase('Failed'))
    await back()
    expect(processOf(stays, isQemu)).toBe(qemu)
    expect(await cluster.vm('stays')).toMatchObject({ status: { phase: 'Running' } })
  })

  test('the handlers, while a VM is being deleted: its grace period ends without them', async () => {
    const vm = await running('half-deleted', { terminationGracePeriodSeconds: 5 })
    await cluster.kubectl('delete', 'vm', 'half-deleted', '--wait=false')
    // The kubelet ends the pod that the controller has deleted, whether or not a handler has requested that before.
    const podOfVm = ['get', 'pods', '-l', 'virtset.io/vm-name=half-deleted', '-o', 'json']
    await cluster.until('the shutdown', async () => {
      const { items }: { items: { metadata: { deletionTimestamp?: string } }[] } = JSON.parse(
        await cluster.kubectl(...podOfVm),
      )
      return items.every(({ metadata }) => metadata.deletionTimestamp !== undefined) || undefined
    })
    // Stopped, no handler can end QEMU.
    for (const pid of await componentProcesses('handler')) process.kill(pid, 'SIGSTOP')
    await cluster.until(
      'QEMU has ended',
      async () => processesOfPod(vm.status?.podUID ?? '', isQemu).length === 0 || undefined,
    )
    const back = await kill('handler')
    await cluster.untilGone('half-deleted')
    await back()
  })

  test('the controllers: VMs continue to run, new ones wait and then run, each in one pod', async () => {
    const before = await running('before')
    const back = await kill('controller')
    await cluster.apply(deaf('meanwhile', impatient))
    await cluster.untilVm('meanwhile', 'runs', inPhase('Running'))
    await back()
    expect((await cluster.vm('before'))?.status).toMatchObject({ phase: 'Running', podUID: before.status?.podUID })
    const pods = await cluster.kubectl('get', 'pods', '-l', 'virtset.io/vm-name=meanwhile', '-o', 'name')
    expect(pods.trim().split('\n')).toHaveLength(1)
  })

  test('the webhooks: VMs continue to run, no VM bypasses admission, and creation works again afterwards', async () => {
    const vm = await running('under-way')
    const back = await kill('webhooks')
    const { output } = await cluster.create(deaf('unseen', impatient))
    const unseen = await cluster.vm('unseen')
    // Either the API server reports a failed call, or the webhooks were back so soon that they completed it.
    const annotations = Object.keys(unseen?.metadata.annotations ?? {})
    expect(unseen === undefined ? output : annotations.join()).toContain(
      unseen === undefined ? 'failed calling webhook' : 'virtset.io/completed-by',
    )
    await back()
    expect((await cluster.vm('under-way'))?.status).toMatchObject({
      phase: 'Running',
      podUID: vm.status?.podUID,
    })
    // The API server notices the endpoints a moment after the kubelet has reported that they are ready.
    await cluster.until('a VM is created again', async () => {
      const { status } = await cluster.create(deaf('afterwards', impatient))
      return status === 0 || undefined
    })
    await cluster.untilVm('afterwards', 'runs', inPhase('Running'))
  })
})

describe('a VM that cannot run', { concurrent: true }, () => {
  test('fails with QEMU’s message if its iSCSI target is unavailable', async () => {
    // A Service without endpoints refuses at once.
    await cluster.apply({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'away' },
      spec: { ports: [{ port: 3260 }], selector: { app: 'none' } },
    })
    const source = {
      protocol: 'iscsi',
      name: 'iqn.2017-01.io.kubevirt:sn.42/2',
      host: { name: `unavailable.${cluster.namespace}`, port: '3260' },
    }
    const disks = [{ type: 'network', device: 'disk', source, target: { dev: 'vda' } }]
    await cluster.apply(deaf('no-target', impatient, { devices: { disks } }))
    const failed = await cluster.untilVm('no-target', 'has failed', inPhase('Failed'))
    expect(failed.status).toMatchObject({
      reason: 'StartFailed',
      message: expect.stringMatching(/iSCSI: Failed to connect to LUN/),
    })
    expect(failed.status?.message).not.toMatch(/\n\s+at |Error:/)
    expect(condition(failed, 'Ready')).toMatchObject({ status: 'False' })
  })

  test('no node fits: it waits, and reports the scheduler’s message', async () => {
    await cluster.apply(deaf('nowhere', { ...impatient, nodeSelector: { 'kubernetes.io/hostname': 'no-such-node' } }))
    const waiting = await cluster.untilVm('nowhere', 'waits', (vm) => condition(vm, 'PodScheduled')?.status === 'False')
    expect(waiting.status?.phase).toBe('Scheduling')
    expect(condition(waiting, 'PodScheduled')).toMatchObject({
      reason: 'Unschedulable',
      message: expect.stringContaining("didn't match Pod's node affinity/selector"),
    })
    await cluster.kubectl('delete', 'vm', 'nowhere', '--timeout=240s')
  })

  test('it is refused: every cause in one response, exit status 1, and nothing is stored', async () => {
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
    expect(await cluster.vm('refused')).toBeUndefined()
  })

  test('a field has a wrong name: refused, with the nearest valid name', async () => {
    const vm = deaf('typo', impatient, { memry: { value: 64 } })
    expect(await cluster.create(vm)).toMatchObject({ status: 1, output: expect.stringMatching(/memry.*memory/s) })
    expect(await cluster.vm('typo')).toBeUndefined()
  })
})
