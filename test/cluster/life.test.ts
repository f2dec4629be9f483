import { afterAll, beforeAll, expect, test } from 'vitest'

import { guestGreeting } from '../../cluster/guest.ts'
import { openCluster, type Machine, type TestCluster } from './cluster.ts'
import { deaf, guest, presets } from './machines.ts'

let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
  await cluster.apply(...presets)
})
afterAll(() => cluster.close())

const inPhase = (phase: string) => (machine: Machine) => machine.status?.phase === phase
const condition = (machine: Machine, type: string) => machine.status?.conditions?.find((each) => each.type === type)

test('a guest from an iSCSI disk, found by its Service’s name, talks on the console that a preset gave it', async () => {
  await cluster.apply(guest('talks'))
  const machine = await cluster.untilMachine('talks', 'runs', inPhase('Running'))
  expect(machine.spec.domain['devices']).toMatchObject({ serials: [{ type: 'pty', target: { port: 0 } }] })
  expect(machine.status).toMatchObject({ nodeName: expect.any(String), podIP: expect.any(String) })
  expect(condition(machine, 'SpecDrift')).toBeUndefined()
  const console = await cluster.console(machine)
  await console.ask('boot', guestGreeting)
  await console.ask('halt', 'powering off')
  console.close()
  const ended = await cluster.untilMachine('talks', 'has ended by itself', inPhase('Succeeded'))
  expect(ended.status?.reason).toBe('Shutdown')
})

test('a deleted VM hears of it, ends in peace long before its grace period, and leaves no pod', async () => {
  await cluster.apply(guest('polite', { terminationGracePeriodSeconds: 120 }))
  const machine = await cluster.untilMachine('polite', 'runs', inPhase('Running'))
  const console = await cluster.console(machine)
  console.write('boot\r')
  await console.hear(guestGreeting)
  await cluster.kubectl('delete', 'vm', 'polite', '--wait=false')
  await console.hear('power button')
  console.close()
  await cluster.untilGone('polite', 40_000)
  expect(await cluster.kubectl('get', 'pods', '-l', 'virtset.io/vm-name=polite', '-o', 'name')).toBe('')
})

test('a guest that hears nothing is ended when its grace period is over', async () => {
  // A finalizer of its own, so that its end can be looked at.
  await cluster.apply(deaf('deaf', { terminationGracePeriodSeconds: 3 }, {}, { finalizers: ['example.org/look'] }))
  await cluster.untilMachine('deaf', 'runs', inPhase('Running'))
  await cluster.kubectl('delete', 'vm', 'deaf', '--wait=false')
  // Whoever deletes it has asked for this: it has not failed.
  const ended = await cluster.untilMachine('deaf', 'has ended', ({ status }) => status?.phase !== 'Running', 30_000)
  expect(ended.status).toMatchObject({ phase: 'Succeeded', reason: 'Destroyed' })
  await cluster.kubectl(
    'patch',
    'vm',
    'deaf',
    '--type=json',
    '-p',
    '[{"op":"test","path":"/metadata/finalizers/0","value":"example.org/look"},{"op":"remove","path":"/metadata/finalizers/0"}]',
  )
  await cluster.untilGone('deaf', 30_000)
  expect(await cluster.kubectl('get', 'pods', '-o', 'name')).not.toContain('virt-launcher-deaf')
})

test('a name that is deleted and created again at once is another VM in another pod', async () => {
  await cluster.apply(deaf('phoenix', { terminationGracePeriodSeconds: 0 }))
  const first = await cluster.untilMachine('phoenix', 'runs', inPhase('Running'))
  await cluster.kubectl('delete', 'vm', 'phoenix')
  await cluster.apply(deaf('phoenix', { terminationGracePeriodSeconds: 0 }))
  const second = await cluster.untilMachine('phoenix', 'runs again', inPhase('Running'))
  expect(second.metadata.uid).not.toBe(first.metadata.uid)
  expect(second.status?.podUID).not.toBe(first.status?.podUID)
})
