import type { VirtualMachine } from '../api/virtual-machine.ts'
import { isConflict, isNotFound } from '../runtime/api-error.ts'
import { createBucket } from '../runtime/bucket.ts'
import { sleep, type Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { createOwnWrites } from '../runtime/own-writes.ts'
import type { Reflector } from '../runtime/reflector.ts'
import { keyOf, type Persisted } from '../runtime/resource.ts'
import { createDelivery } from './delivery.ts'
import { cachedVms, slimVm, usualWeight, type CachedVm } from './slim-vm.ts'
import type { StatusWrite, UpdateCost } from './status-write.ts'
import { createWriteTurns } from './write-turns.ts'

type Vm = Persisted<CachedVm>

/** Status updates of the whole node: a full node that starts at once has one per VM. */
const writesPerSecond = 50
const writeBurst = 200

const mebibyte = 1024 * 1024

/**
 * Updates of more than usual weight, by that: each rewrites the whole VM, and one with 50,000 values takes half a second
 * of the API server's CPU time. The burst is one update of each of 80 VMs with 100 devices (400 KiB). The next one begins
 * when the watch has delivered the last: all of a burst at once would delay the events of other VMs by the time that the
 * API server takes for all of it.
 */
const largeWrites = {
  perSecond: mebibyte,
  burst: 32 * mebibyte,
  inProgress: { weight: mebibyte, all: 16, perNamespace: 4 },
}

const unlimited = Number.MAX_SAFE_INTEGER

/**
 * Updates that need no turn, by their bytes: those of all rounds would take 64 MiB while the API server is slow, of the
 * 320 MiB that the manifest allows.
 */
const heldBytes = {
  perSecond: unlimited,
  burst: unlimited,
  inProgress: { weight: 8 * mebibyte, all: unlimited, perNamespace: unlimited },
}
/** Those of all rounds take 4 MiB. */
const fewBytes = 16 * 1024

interface StatusWriterOptions {
  readonly kube: KubeClient
  readonly vms: Reflector<VirtualMachine>
  /** Called with the key of a VM whose update had no turn, and has one now. */
  readonly announce: (key: string) => void
  /** Ends what waits for the budget of the node. */
  readonly signal: AbortSignal
  readonly clock: Clock
}

/** Writes the statuses of the VMs of a node, within the budgets of the node. */
export interface StatusWriter {
  /** The VM after the last update of it, if the watch has not delivered that yet. */
  newest(stored: Vm): Vm
  /** Whether the update has a turn, if it needs one; `write` is then to be called. Otherwise, the VM is announced later. */
  mayBegin(vm: Vm, cost: UpdateCost): boolean
  /** There is nothing to write for the VM: others get its turn. */
  leave(vm: Vm): void
  /** Waits for the node's budget of updates: at most for the few of each other namespace that are in progress. */
  write(vm: Vm, write: StatusWrite): Promise<Vm>
  /** The same for an answer to a controller, which asks once for each VM: it needs no turn. */
  answer(vm: Vm, write: StatusWrite): Promise<Vm>
  /** The VM was deleted. */
  forget(vm: Vm): void
}

export function createStatusWriter({ kube, vms, announce, signal, clock }: StatusWriterOptions): StatusWriter {
  const budget = createBucket(writesPerSecond, writeBurst, clock)
  const turns = createWriteTurns(largeWrites, clock, announce)
  const held = createWriteTurns(heldBytes, clock, announce)
  const afterDelivery = createDelivery(vms, clock)
  const written = createOwnWrites<VirtualMachine>(clock)

  const send = async (vm: Vm, { body }: StatusWrite): Promise<Vm> => {
    const { name, namespace } = vm.metadata
    const waitMs = budget.take()
    if (waitMs > 0) await sleep(clock, waitMs, signal)
    try {
      const ref = { name, ...(namespace === undefined ? {} : { namespace }) }
      const patched = kube.patch(cachedVms, ref, { type: 'json', body }, { subresource: 'status' })
      const after = slimVm(await vms.observeWrite(patched))
      written.note(after)
      return after
    } catch (error) {
      // Another client wrote in between; the watch queues the next round, which starts from that object.
      if (isConflict(error) || isNotFound(error)) written.forget(vm.metadata)
      throw error
    }
  }

  const leave = ({ metadata }: Vm) => {
    turns.leave(keyOf(metadata))
    held.leave(keyOf(metadata))
  }

  return {
    newest: (stored) => written.newest(stored),
    mayBegin(vm, cost) {
      const { namespace = '' } = vm.metadata
      const key = keyOf(vm.metadata)
      if (needsTurn(cost)) {
        held.leave(key)
        return turns.take(key, namespace, cost.weight)
      }
      turns.leave(key)
      if (cost.bytes > fewBytes) return held.take(key, namespace, cost.bytes)
      held.leave(key)
      return true
    },
    leave,
    async write(vm, write) {
      const key = keyOf(vm.metadata)
      if (!needsTurn(write)) return send(vm, write).finally(() => held.end(key))
      try {
        const after = await send(vm, write)
        afterDelivery(after, () => turns.end(key))
        return after
      } catch (error) {
        turns.end(key)
        throw error
      }
    },
    answer: send,
    forget(vm) {
      leave(vm)
      written.forget(vm.metadata)
    },
  }
}

/** A VM starts and ends once, which costs no more than its creation did. */
const needsTurn = ({ weight, isAwaited }: UpdateCost): boolean => weight > usualWeight && !isAwaited
