import { isFinished } from '../../api/virtual-machine.ts'
import { vmUidLabel } from '../../controller/launcher-pod.ts'
import { hasEnded, vmUidOf } from '../../controller/own-pod.ts'
import { nodeNames, vmNames } from './world.ts'
import type { World } from './world.ts'

const isAlive = ({ guest }: { readonly guest: string }): boolean => guest === 'running' || guest === 'shuttingDown'

/**
 * Violations of the invariants, which hold at any moment: at most one guest per VM, no guest without its VM, no
 * finished VM without a reason. A finished VM has no guest either, unless its launcher lies.
 */
export function faultsOf({ vms, processes, ended }: World): string[] {
  const alive = [...processes.values()].filter(isAlive)
  const faults: string[] = []
  for (const name of vmNames) {
    const guests = alive.filter(({ vmName }) => vmName === name)
    if (guests.length > 1) faults.push(`two guests of VM ${name}: pods ${guests.map(({ podUid }) => podUid).join()}`)
  }
  for (const { vmUid, vmName } of alive) {
    if (vms.get(vmName)?.metadata.uid !== vmUid) faults.push(`a guest of VM ${vmName} runs without its VM`)
  }
  for (const vm of vms.values()) {
    const { name, uid } = vm.metadata
    const { phase = 'Pending', reason } = vm.status ?? {}
    const before = ended.get(uid)
    if (before !== undefined && before !== phase) faults.push(`VM ${name} went from ${before} to ${phase}`)
    if (!isFinished(vm)) continue
    ended.set(uid, phase)
    if (reason === undefined || reason === '') faults.push(`VM ${name} is ${phase} without a reason`)
    if (alive.some(({ vmUid, isLying }) => vmUid === uid && !isLying))
      faults.push(`VM ${name} is ${phase}, and its guest runs`)
  }
  return faults
}

/** Enough for the longest chain: a copied pod, a handler that does not confirm, a launcher that remains. */
const rounds = 14

/** Every actor acts once, in the order that advances VMs. */
export function actOnce(world: World): void {
  for (const name of vmNames) world.observeVm(name)
  world.observePods()
  for (const name of vmNames) world.reconcile(name)
  for (const pod of world.pods.values()) world.schedule(pod, 'n1')
  for (const node of nodeNames) {
    world.runKubelet(node)
    for (const name of vmNames) {
      world.observeAtHandler(node, name)
      world.handle(node, name)
    }
  }
}

/** Lets every actor act until nothing changes, with all nodes restored and no lost writes. */
export function settle(world: World): void {
  for (const node of nodeNames) world.restore(node)
  for (let round = 0; round < rounds; round++) {
    world.arriveLate()
    world.collectGarbage()
    for (const process of world.processes.values()) {
      if (process.guest === 'shuttingDown') world.stopGuest(process)
      world.exitLauncher(process)
    }
    for (const node of nodeNames) world.observeNode(node)
    actOnce(world)
    world.collectOrphans()
    world.advance(60_000)
  }
}

/** Violations that must not remain after `settle`. */
export function leftoversOf({ vms, pods, processes }: World): string[] {
  const faults: string[] = []
  const alive = [...processes.values()].filter(isAlive)
  for (const vm of vms.values()) {
    const { name, uid, deletionTimestamp } = vm.metadata
    const phase = vm.status?.phase ?? 'Pending'
    const guests = alive.filter(({ vmUid }) => vmUid === uid).length
    if (deletionTimestamp !== undefined) faults.push(`VM ${name} is deleted and stays, ${phase}`)
    else if (!isFinished(vm) && (phase !== 'Running' || guests !== 1)) {
      faults.push(`VM ${name} is ${phase} with ${guests} guests`)
    }
  }
  for (const pod of pods.values()) {
    const uid = vmUidOf(pod)
    const vm = [...vms.values()].find(({ metadata }) => metadata.uid === uid)
    if (vm === undefined) faults.push(`the pod ${pod.metadata.name} has no VM`)
    // Without its label, the pod of a finished VM is found when the VM is deleted.
    else if (processes.get(pod.metadata.uid)?.isLying === true && pod.metadata.labels?.[vmUidLabel] === undefined)
      continue
    else if (isFinished(vm) && !hasEnded(pod)) faults.push(`the pod ${pod.metadata.name} of a finished VM runs`)
  }
  return faults
}
