import { afterAll, beforeAll, expect, test } from 'vitest'

import { guestGreeting } from '../../../cluster/guest.ts'
import { openCluster, processesOfPod, type VirtualMachine, type TestCluster } from '../cluster.ts'
import { deaf, guest, presets } from '../vms.ts'

let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
  await cluster.apply(...presets)
})
afterAll(() => cluster.close())

const inPhase = (phase: string) => (vm: VirtualMachine) => vm.status?.phase === phase
const condition = (vm: VirtualMachine, type: string) => vm.status?.conditions?.find((each) => each.type === type)

test.concurrent('a guest from an iSCSI disk, found by its Service’s name, writes to the console that a preset added', async () => {
  await cluster.apply(guest('talks'))
  const vm = await cluster.untilVm('talks', 'runs', inPhase('Running'))
  expect(vm.spec.domain['devices']).toMatchObject({ serials: [{ type: 'pty', target: { port: 0 } }] })
  expect(vm.status).toMatchObject({ nodeName: expect.any(String), podIP: expect.any(String) })
  expect(condition(vm, 'SpecDrift')).toBeUndefined()
  const console = await cluster.console(vm)
  await console.ask('boot', guestGreeting)
  await console.isUp()
  // Not what it prints last: QEMU may have ended before libvirt has read that.
  console.write('halt\r')
  const ended = await cluster.untilVm('talks', 'has ended by itself', inPhase('Succeeded'))
  expect(ended.status?.reason).toBe('Shutdown')
  console.close()
})

test.concurrent('a deleted VM powers off long before the end of its grace period, and leaves no pod', async () => {
  await cluster.apply(guest('polite', { terminationGracePeriodSeconds: 600 }))
  const vm = await cluster.untilVm('polite', 'runs', inPhase('Running'))
  const console = await cluster.console(vm)
  await console.isUp()
  console.close()
  await cluster.kubectl('delete', 'vm', 'polite', '--wait=false')
  await cluster.untilPoweredOff('polite')
  expect(await cluster.kubectl('get', 'pods', '-l', 'virtset.io/vm-name=polite', '-o', 'name')).toBe('')
})

test.concurrent('a guest that ignores the power button is ended after its grace period', async () => {
  // With another finalizer, so that its final status can be read.
  await cluster.apply(deaf('deaf', { terminationGracePeriodSeconds: 3 }, {}, { finalizers: ['example.org/look'] }))
  await cluster.untilVm('deaf', 'runs', inPhase('Running'))
  await cluster.kubectl('delete', 'vm', 'deaf', '--wait=false')
  // Its deletion requested this end, so it has not failed.
  const ended = await cluster.untilVm('deaf', 'has ended', ({ status }) => status?.phase !== 'Running')
  expect(ended.status).toMatchObject({ phase: 'Succeeded', reason: 'Destroyed' })
  await cluster.kubectl(
    'patch',
    'vm',
    'deaf',
    '--type=json',
    '-p',
    '[{"op":"test","path":"/metadata/finalizers/0","value":"example.org/look"},{"op":"remove","path":"/metadata/finalizers/0"}]',
  )
  await cluster.untilGone('deaf')
  expect(await cluster.kubectl('get', 'pods', '-o', 'name')).not.toContain('virt-launcher-deaf')
})

test.concurrent('a VM that is created again at once under the same name has another pod', async () => {
  await cluster.apply(deaf('phoenix', { terminationGracePeriodSeconds: 0 }))
  const first = await cluster.untilVm('phoenix', 'runs', inPhase('Running'))
  await cluster.kubectl('delete', 'vm', 'phoenix')
  await cluster.apply(deaf('phoenix', { terminationGracePeriodSeconds: 0 }))
  const second = await cluster.untilVm('phoenix', 'runs again', inPhase('Running'))
  expect(second.metadata.uid).not.toBe(first.metadata.uid)
  expect(second.status?.podUID).not.toBe(first.status?.podUID)
})

test.concurrent('a VM with Secure Boot and a TPM starts, and its firmware writes to the console', async () => {
  const domain = {
    memory: { unit: 'MiB', value: 256 },
    os: { firmware: 'efi', type: { os: 'hvm', machine: 'q35' } },
    devices: { tpms: [{ model: 'tpm-crb', backend: { type: 'emulator', version: '2.0' } }] },
  }
  await cluster.apply(deaf('firmware', { terminationGracePeriodSeconds: 0 }, domain))
  const vm = await cluster.untilVm('firmware', 'runs', inPhase('Running'))
  const console = await cluster.console(vm)
  await console.hear('BdsDxe: No bootable option or device was found')
  console.close()
  const swtpms = processesOfPod(vm.status?.podUID ?? 'no pod', (command) => command.startsWith('/usr/bin/swtpm '))
  expect(swtpms.length).toBe(1)
}, 600_000)
