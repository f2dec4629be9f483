import * as fc from 'fast-check'
import { actOnce, faultsOf, leftoversOf, settle } from './invariant.ts'
import { createWorld, nodeNames, vmNames } from './world.ts'
import type { Fault, NodeName, VmName, World } from './world.ts'

/** A step of a history, and the check that follows it. */
class Step implements fc.Command<object, World> {
  readonly #name: string
  readonly #act: (world: World) => void
  constructor(name: string, act: (world: World) => void) {
    this.#name = name
    this.#act = act
  }
  check(): boolean {
    return true
  }
  run(_model: object, world: World): void {
    this.#act(world)
    mustBeEmpty(faultsOf(world))
  }
  toString(): string {
    return this.#name
  }
}

function mustBeEmpty(faults: readonly string[]): void {
  if (faults.length > 0) throw new Error(faults.join('; '))
}

const vmName = fc.constantFrom(...vmNames)
const nodeName = fc.constantFrom(...nodeNames)
const fault = fc.option(
  fc.record<Fault>({ at: fc.nat(2), kind: fc.constantFrom<Fault['kind'][]>('lost', 'unanswered', 'late') }),
  { nil: undefined, freq: 3 },
)

const ofVm = (name: string, act: (world: World, vm: VmName) => void) =>
  vmName.map((vm) => new Step(`${name} ${vm}`, (world) => act(world, vm)))
const ofNode = (name: string, act: (world: World, node: NodeName) => void) =>
  nodeName.map((node) => new Step(`${name} ${node}`, (world) => act(world, node)))
const ofPod = (name: string, act: (world: World, pod: NonNullable<ReturnType<World['podOf']>>) => void) =>
  ofVm(name, (world, vm) => {
    const pod = world.podOf(vm)
    if (pod !== undefined) act(world, pod)
  })
const plain = (name: string, act: (world: World) => void) => fc.constant(new Step(name, act))

/** The guests' processes of a VM. */
const guestsOf = (world: World, vm: VmName) =>
  [...world.processes.values()].filter((process) => process.vmName === vm && !process.hasExited)

const reconcile = fc
  .tuple(vmName, fault)
  .map(([vm, lost]) => new Step(`controller ${vm} ${JSON.stringify(lost)}`, (world) => world.reconcile(vm, lost)))
const handle = fc
  .tuple(nodeName, vmName, fault)
  .map(
    ([node, vm, lost]) =>
      new Step(`handler ${node} ${vm} ${JSON.stringify(lost)}`, (world) => world.handle(node, vm, lost)),
  )
const observeAtHandler = fc
  .tuple(nodeName, vmName)
  .map(([node, vm]) => new Step(`handler ${node} sees ${vm}`, (world) => world.observeAtHandler(node, vm)))
const schedule = fc.tuple(vmName, nodeName).map(
  ([vm, node]) =>
    new Step(`schedule ${vm} to ${node}`, (world) => {
      const pod = world.podOf(vm)
      if (pod !== undefined) world.schedule(pod, node)
    }),
)

/** Steps that advance a VM are listed more often, so that most histories reach late phases. */
const steps = [
  ...Array.from({ length: 3 }, () => ofVm('create', (world, vm) => world.create(vm, true))),
  ofVm('create without finalizer', (world, vm) => world.create(vm, false)),
  ofVm('delete', (world, vm) => world.delete(vm, 'background')),
  ofVm('delete --cascade=orphan', (world, vm) => world.delete(vm, 'orphan')),
  ofPod('delete pod of', (world, pod) => world.deletePod(pod)),
  ofPod('force-delete pod of', (world, pod) => world.forceDeletePod(pod)),
  ofPod('evict pod of', (world, pod) => world.evictPod(pod)),
  ofPod('remove owner from pod of', (world, pod) => world.editPod(pod, false)),
  ofPod('remove owner and label from pod of', (world, pod) => world.editPod(pod, true)),
  ofPod('copy pod of', (world, pod) => world.copyPod(pod)),
  ofNode('partition', (world, node) => world.partition(node)),
  ofNode('kill', (world, node) => world.kill(node)),
  ofNode('restore', (world, node) => world.restore(node)),
  ofNode('controller sees', (world, node) => world.observeNode(node)),
  ofVm('guest crashes', (world, vm) => guestsOf(world, vm).forEach((process) => world.crashGuest(process))),
  ofVm('guest powers off', (world, vm) => guestsOf(world, vm).forEach((process) => world.stopGuest(process))),
  ofVm('launcher exits', (world, vm) => guestsOf(world, vm).forEach((process) => world.exitLauncher(process))),
  ofVm('launcher lies', (world, vm) => guestsOf(world, vm).forEach((process) => world.lie(process))),
  plain('garbage collection', (world) => world.collectGarbage()),
  plain('orphan controller', (world) => world.collectOrphans()),
  plain('restart controller', (world) => world.restartController()),
  plain('late write arrives', (world) => world.arriveLate()),
  plain('10 s pass', (world) => world.advance(10_000)),
  plain('70 s pass', (world) => world.advance(70_000)),
  plain('400 s pass', (world) => world.advance(400_000)),
  ...Array.from({ length: 8 }, () => plain('everyone acts', actOnce)),
  ...[1, 2, 3].flatMap(() => [
    schedule,
    ofVm('controller sees', (world, vm) => world.observeVm(vm)),
    plain('controller sees pods', (world) => world.observePods()),
    reconcile,
    observeAtHandler,
    handle,
    ofNode('kubelet', (world, node) => world.runKubelet(node)),
  ]),
]

/** Histories of two VMs on two nodes. The invariants must hold after each step and at the end. */
export const histories = (maxCommands: number) => fc.commands(steps, { maxCommands, size: 'max' })

export function live(history: Iterable<fc.Command<object, World>>): void {
  const world = createWorld()
  fc.modelRun(() => ({ model: {}, real: world }), history)
  settle(world)
  mustBeEmpty([...faultsOf(world), ...leftoversOf(world)])
}
