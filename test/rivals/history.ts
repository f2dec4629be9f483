import * as fc from 'fast-check'
import { isFinished } from '../../api/virtual-machine.ts'
import { controllers, createWorld, vmNames, type ControllerId, type VmName, type World } from './world.ts'

/** Something that can happen now. */
interface Step {
  readonly name: string
  readonly act: () => void
}

/** What has a larger weight happens more often, so that most histories get as far as guests with the disk. */
function stepsOf(world: World): readonly Step[] {
  const steps: Step[] = []
  const add = (weight: number, isPossible: boolean, name: string, act: () => void) => {
    if (isPossible) for (let count = 0; count < weight; count++) steps.push({ name, act })
  }
  for (const vm of vmNames) {
    const { spec, status } = world.vmOf(vm)
    const pod = world.podOf(vm)
    const isOver = isFinished(world.vmOf(vm))
    const isAttached = (spec.attachedVolumes ?? []).length > 0
    const isInvolved = !isOver && (status?.attachmentPods ?? []).length > 0
    add(8, !isOver && !isAttached, `attach to ${vm}`, () => world.attach(vm))
    add(1, isInvolved && isAttached, `detach from ${vm}`, () => world.detach(vm))
    add(2, !isOver && world.guests.has(vm), `${vm} ends`, () => world.finish(vm, false))
    add(2, !isOver && world.guests.has(vm), `the launcher of ${vm} lies`, () => world.finish(vm, true))
    add(1, isInvolved, `${vm} is Unknown`, () => world.setPhase(vm, 'Unknown'))
    add(8, status?.phase === 'Unknown', `${vm} is Running`, () => world.setPhase(vm, 'Running'))
    add(1, !isOver && pod !== undefined, `the pod of ${vm} is removed by force`, () => world.removeByForce(vm))
    add(1, pod !== undefined, `the pod of ${vm} is deleted`, () => world.evict(vm))
    add(16, pod !== undefined && pod.spec.nodeName === undefined, `schedule the pod of ${vm}`, () => world.schedule(vm))
    add(16, world.hasWork(vm), `kubelet of ${vm}`, () => world.runKubelet(vm))
    add(8, isInvolved || world.guests.has(vm), `handler of ${vm}`, () => world.handle(vm))
  }
  add(1, true, 'the other process leads', () => world.changeLeader())
  for (const id of controllers) {
    const { isVmLate, isPodLate, timers, queue, passes } = world.stateOf(id)
    add(4, isVmLate, `${id} sees a VM`, () => world.deliverVm(id))
    add(4, isVmLate, `${id} sees VMs`, () => seeAll(() => world.deliverVm(id)))
    add(8, isPodLate, `${id} sees a pod`, () => world.deliverPod(id))
    add(8, isPodLate, `${id} sees pods`, () => seeAll(() => world.deliverPod(id)))
    add(4, timers > 0, `${id} is called by timers`, () => world.fireTimers(id))
    for (const vm of queue) add(4, true, `${id} begins with ${vm}`, () => world.begin(id, vm))
    for (const vm of queue) add(16, true, `${id} passes over ${vm}`, () => passOver(world, id, vm))
    for (const vm of passes) add(16, true, `${id} continues with ${vm}`, () => world.advance(id, vm))
  }
  return steps
}

const seeAll = (deliver: () => boolean): void => {
  while (deliver());
}

function passOver(world: World, id: ControllerId, vm: VmName): void {
  world.begin(id, vm)
  while (world.stateOf(id).passes.includes(vm)) world.advance(id, vm)
}

/** Each number chooses one of the steps that are possible then. */
export interface History {
  readonly readers: readonly VmName[]
  readonly choices: readonly number[]
}

/** Histories of VMs that are to get one claim, of which some can only read it. */
export const histories = (length: number): fc.Arbitrary<History> =>
  fc.record({
    readers: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, fc.subarray([...vmNames])),
    choices: fc.array(fc.nat(2 ** 20), { minLength: length / 2, maxLength: length, size: 'max' }),
  })

/** VMs that disturb each other: two that can use the disk at the same time, of which one writes. */
export function faultsOf({ servers, guests, readers }: World): string[] {
  const canWrite = [...servers.values()].filter(
    ({ podUID, vm, isRunning, wasNamed, isForgotten }) =>
      isRunning && wasNamed && (!isForgotten || guests.get(vm)?.podUID === podUID),
  )
  const users = [...new Set(canWrite.map(({ vm }) => vm))].toSorted()
  return users.length < 2 || users.every((vm) => readers.includes(vm)) ? [] : [`${users.join(' and ')} have the disk`]
}

/** All that can happen happens. */
function actOnce(world: World): void {
  for (const id of controllers) {
    seeAll(() => world.deliverVm(id))
    seeAll(() => world.deliverPod(id))
    world.fireTimers(id)
    for (const vm of vmNames) passOver(world, id, vm)
  }
  for (const vm of vmNames) {
    world.schedule(vm)
    world.runKubelet(vm)
    world.handle(vm)
  }
}

/** The longest chain: two VMs give way, a pod ends, is known to have ended, and another is created. */
const rounds = 24

function settle(world: World): void {
  for (let round = 0; round < rounds; round++) {
    const before = world.version()
    actOnce(world)
    mustBeEmpty(faultsOf(world))
    // Nobody has written, so nothing changes any more.
    if (world.version() === before && round > 0) return
  }
  throw new Error('writes never end')
}

const wants = (world: World, vm: VmName): boolean =>
  !isFinished(world.vmOf(vm)) && (world.vmOf(vm).spec.attachedVolumes ?? []).length > 0

/** Those that wait although nobody has the claim, and those that have not let go of it. */
export function leftoversOf(world: World): string[] {
  const wanting = vmNames.filter((vm) => wants(world, vm))
  const serving = wanting.filter((vm) => world.servers.get(world.guests.get(vm)?.podUID ?? '')?.isRunning)
  const isReader = (vm: VmName) => world.readers.includes(vm)
  const isKept = (vm: VmName) => serving.some((other) => !isReader(vm) || !isReader(other))
  const forgotten = wanting.filter((vm) => !serving.includes(vm) && !isKept(vm))
  const remaining = vmNames.filter(
    (vm) => !wants(world, vm) && (world.vmOf(vm).status?.attachmentPods ?? []).length > 0,
  )
  return [
    ...forgotten.map((vm) => `${vm} waits, although nobody keeps the claim from it`),
    ...remaining.map((vm) => `${vm} keeps the claim, which it does not want`),
    ...vmNames.filter((vm) => !wants(world, vm) && world.podOf(vm) !== undefined).map((vm) => `${vm} has a pod`),
  ]
}

function mustBeEmpty(faults: readonly string[]): void {
  if (faults.length > 0) throw new Error(faults.join('; '))
}

/**
 * Two that have the disk are a fault at any time. Once nothing is late, those that have it end, and others get it.
 * @throws with the steps
 */
export function live({ readers, choices }: History): void {
  const world = createWorld(readers)
  const names: string[] = []
  try {
    for (const choice of choices) {
      const steps = stepsOf(world)
      const { name, act } = steps[choice % steps.length]!
      names.push(name)
      act()
      mustBeEmpty(faultsOf(world))
    }
    for (const vm of vmNames) world.setPhase(vm, 'Running')
    settle(world)
    mustBeEmpty(leftoversOf(world))
    for (const _ of vmNames) {
      names.push('those that have the disk end')
      for (const vm of vmNames) if (world.guests.has(vm)) world.finish(vm, false)
      settle(world)
      mustBeEmpty(leftoversOf(world))
    }
  } catch (error) {
    throw new Error(`${String(error)}\n${names.join('\n')}`, { cause: error })
  }
}
