import type { Clock } from '../runtime/clock.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { createLanes, type Lanes } from '../runtime/lanes.ts'
import type { Persisted } from '../runtime/resource.ts'
import { launcherVms, type CachedVm } from './slim-vm.ts'

type Vm = Persisted<CachedVm>

/**
 * VMs too large for the cache that are read at once. With its response and what is sent of it, one of a megabyte takes
 * up to 10 MiB, for as long as its launcher withholds its answer; those that are late give their places to as many.
 */
const wholeVmLimits = { all: 4, perNamespace: 2 }

/** A launcher that is short of CPU takes a second for a megabyte, and is not slow for that. */
const slowWholeMs = 2000

interface WholeVmsOptions {
  readonly kube: KubeClient
  readonly nodeName: string
  /** Ends what waits for its turn. */
  readonly signal: AbortSignal
  readonly clock: Clock
}

/**
 * The VMs of a node with their whole specs. One is to be used for nothing but `use`, and not kept: a large one takes
 * megabytes, and waits for its turn.
 */
export interface WholeVms {
  /** Runs `use` with the VM and its whole spec; undefined if it was deleted. */
  use<T>(vm: Vm, use: (whole: Vm) => Promise<T>): Promise<T | undefined>
  /** The same for a finished VM, of which the cache has less: launchers can hold the other turns for seconds. */
  useFinished<T>(vm: Vm, use: (whole: Vm) => Promise<T>): Promise<T | undefined>
}

export function createWholeVms({ kube, nodeName, signal, clock }: WholeVmsOptions): WholeVms {
  const usual = createLanes(wholeVmLimits, clock, slowWholeMs)
  const finished = createLanes(wholeVmLimits, clock)

  /** Listed, since a handler must not read the VMs of other nodes. */
  async function read({ metadata: { namespace = '', name, uid } }: Vm): Promise<Vm | undefined> {
    const fieldSelector = `metadata.name=${name},status.nodeName=${nodeName}`
    const { items } = await kube.list(launcherVms, { namespace, fieldSelector })
    return items.find(({ metadata }) => metadata.uid === uid)
  }

  function inTurn<T>(lanes: Lanes, vm: Vm, use: (whole: Vm) => Promise<T>): Promise<T | undefined> {
    const work = async () => {
      const whole = await read(vm)
      return whole === undefined ? undefined : use(whole)
    }
    return lanes.run(vm.metadata.namespace ?? '', work, signal)
  }

  return {
    async use(vm, use) {
      const { weight: _weight, ...whole } = vm
      return vm.isPartial === true ? inTurn(usual, vm, use) : use(whole)
    },
    useFinished: (vm, use) => inTurn(finished, vm, use),
  }
}
